"""What admins do on the pages: each act is the database's own function, stands in the audit, and can be undone."""

import asyncio
import re
from html import unescape

from sqlalchemy import text

from tests.adapters.web.admin.conftest import TOKEN, WAITING, make_person, post, write_scene
from tests.adapters.web.admin.test_frame import content
from tests.adapters.web.conftest import BY_HAND, Site
from tests.support.eventually import eventually
from tests.support.forms import snapshot

ENTRY = re.compile(r'name="entry" value="(\d+)"')
SERVER, CHANNEL = "/admin/servers/1", "/admin/servers/1/channels/4712"


async def test_each_act_is_in_the_audit_and_is_undone_beside_its_result(site: Site) -> None:
    bob = await write_scene(site)
    person = f"/admin/people/{bob}"
    acts: list[tuple[str, dict[str, str], str]] = [
        (person, {"act": "budget", "tokens": "50,000"}, "bob may use 50000 tokens in 30 days"),
        (person, {"act": "budget", "tokens": ""}, "any number of tokens"),
        (person, {"act": "limit", "period": "day", "tokens": "", "dollars": "2.50"}, "may use 2.50 dollars in a day"),
        (person, {"act": "level", "permission": "user", "until": ""}, "bob is user now, and was guest"),
        (person, {"act": "level", "permission": "admin", "until": "2999-12-31"}, "bob is admin until 3000-01-01"),
        (
            person,
            {"act": "more", "tokens": "20000", "until": "2999-12-31"},
            "20000 tokens more until ",
        ),
        (person, {"act": "pause"}, "bob is paused"),
        (SERVER, {"act": "pause"}, "nobody is answered on 4711"),
        (SERVER, {"act": "budget", "tokens": "7"}, "may use 7 tokens in 30 days"),
        (SERVER, {"act": "limit", "period": "month", "tokens": "9", "dollars": ""}, "may use 9 tokens in a month"),
        (SERVER, {"act": "mode", "mode": "off"}, "in all channels of 4711 it answers never"),
        (SERVER, {"act": "persona", "persona": "Sage"}, "the persona Sage answers on 4711"),
        (CHANNEL, {"act": "mode", "mode": "always", "answers_others": "yes"}, "the channel 4712 it answers every"),
        (CHANNEL, {"act": "persona", "persona": "Sage"}, "the persona Sage answers in the channel 4712"),
        (CHANNEL, {"act": "limit", "period": "day", "tokens": "0", "dollars": ""}, "the channel may use 0 tokens"),
    ]
    async with site.browser("ann") as ann:
        for path, fields, sentence in acts:
            before = await snapshot(site.parley)
            answer = await post(ann, path, **fields)
            assert answer.status_code == 200, answer.text
            assert sentence.lower() in answer.text.lower()
            assert await snapshot(site.parley) != before
            entries = ENTRY.findall(answer.text)
            assert entries
            for entry in entries:
                who = await site.parley.value("SELECT who FROM admin.audit WHERE id = :id", id=int(entry))
                assert who == "web:ann"
                assert (await post(ann, path, act="undo", entry=entry)).status_code == 200
            assert await snapshot(site.parley) == before, fields
        # What is lifted, and who is answered again.
        await post(ann, person, act="pause")
        assert "Answer again" in (await ann.get(person)).text
        assert (await post(ann, person, act="resume")).status_code == 200
        audit = (await ann.get("/admin/audit?who=Ann&table=users")).text
        assert "undone by" in audit
        assert "Nothing like that" in (await ann.get("/admin/audit?who=nobody")).text


async def test_what_is_refused_says_why_beside_what_was_entered(site: Site) -> None:
    bob = await write_scene(site)
    async with site.browser("ann") as ann:
        for path, fields, sentence, entered in (
            (f"/admin/people/{bob}", {"act": "budget", "tokens": "a lot"}, "is no whole number", 'value="a lot"'),
            (f"/admin/people/{bob}", {"act": "limit", "dollars": "-1", "tokens": "12"}, "is no amount", 'value="12"'),
            (
                f"/admin/people/{bob}",
                {"act": "level", "permission": "user", "until": "2001-01-01"},
                "has passed already",
                'value="2001-01-01"',
            ),
            (f"/admin/people/{bob}", {"act": "more", "tokens": "1", "until": "9999-12-31"}, "is no date", ""),
            (f"/admin/people/{bob}", {"act": "erase", "name": "Bob"}, "nothing was erased", 'value="Bob"'),
            (CHANNEL, {"act": "mode", "mode": "loud"}, "there is no mode", ""),
            ("/admin/audit", {"act": "undo", "entry": "999"}, "the log of changes has no entry 999", ""),
        ):
            answer = await post(ann, path, **fields)
            assert answer.status_code == 422
            assert sentence.lower() in answer.text.lower()
            assert entered in answer.text


async def test_the_database_keeps_an_admin_below_owners(site: Site) -> None:
    """Ann is an owner, Eve an admin: by no form does she change an owner, or become one."""
    await write_scene(site)
    # So that not the rule speaks which keeps the last owner.
    await make_person(site, "oda", "owner")
    eve_id = await make_person(site, "eve", "admin")
    owner = await site.parley.value("SELECT admin.find_user('web', 'ann')")
    await site.parley.sql("SELECT parley_set_permission(:id, 'owner')", id=eve_id)
    await site.parley.sql("SELECT parley_set_permission(:id, 'admin')", id=eve_id)
    demotion = await site.parley.value("SELECT max(id) FROM audit_log")
    await site.parley.sql("SELECT admin.set_budget('web', 'ann', 100)")
    await site.parley.sql("SELECT admin.set_limit('person', tokens => 5, platform => 'web', account => 'ann')")
    await site.parley.sql("SELECT admin.grant_more('users', :id, '2999-01-01', tokens => 5)", id=owner)
    grant = await site.parley.value("SELECT max(id) FROM audit_log")
    await site.parley.sql("SELECT admin.set_limit('permission', tokens => 5, permission => 'owner')")
    later = await make_person(site, "lea", "owner")
    await site.parley.sql("SELECT parley_set_permission(:id, 'user', '2999-01-01')", id=later)
    before = await snapshot(site.parley)
    async with site.browser("eve") as eve:
        for path, fields in (
            (f"/admin/people/{owner}", {"act": "limit", "period": "day", "tokens": "0"}),
            (f"/admin/people/{owner}", {"act": "limit", "period": "month"}),
            (f"/admin/people/{owner}", {"act": "more", "tokens": "5", "until": "2999-12-31"}),
            (f"/admin/people/{owner}", {"act": "undo", "entry": str(grant)}),
            (f"/admin/people/{owner}", {"act": "undo", "entry": str(grant + 1)}),
            (f"/admin/people/{later}", {"act": "pause"}),
            (f"/admin/people/{later}", {"act": "erase", "name": "Lea"}),
            (f"/admin/people/{owner}", {"act": "pause"}),
            (f"/admin/people/{owner}", {"act": "budget", "tokens": "0"}),
            (f"/admin/people/{owner}", {"act": "level", "permission": "guest"}),
            (f"/admin/people/{owner}", {"act": "erase", "name": "Ann"}),
            (f"/admin/people/{eve_id}", {"act": "level", "permission": "owner"}),
            (f"/admin/people/{eve_id}", {"act": "undo", "entry": str(demotion)}),
        ):
            answer = await post(eve, path, **fields)
            assert answer.status_code == 422
            assert "Only an owner may change an owner" in answer.text
    assert await snapshot(site.parley) == before
    assert await site.parley.value("SELECT count(*) FROM erasures") == 0


async def test_whoever_is_demoted_cannot_raise_themselves_again(site: Site) -> None:
    """Not in the moment of it, for the entry that undoes it has a number that is known before; nor while it lasts."""
    bob = await write_scene(site)
    eve_id = await make_person(site, "eve", "admin")
    path = f"/admin/people/{eve_id}"
    async with site.browser("eve") as eve, site.parley.app.database.transaction() as demoting:
        token = unescape(TOKEN.findall((await eve.get(path)).text)[0])
        await demoting.execute(text("SELECT admin.grant_permission('web', 'eve', 'user')"))
        entry = (await demoting.execute(text("SELECT max(id) FROM audit_log"))).scalar_one()
        acts = [
            asyncio.create_task(eve.post(path, data={"token": token, **fields}))
            for fields in ({"act": "undo", "entry": entry}, {"act": "level", "permission": "admin"})
        ]
        await eventually(lambda: site.parley.value(WAITING, count=len(acts)))
        await demoting.commit()
        assert ["Only admins and owners may do this" in (await act).text for act in acts] == [True, True]
        await site.parley.sql("SELECT admin.grant_permission('web', 'eve', 'admin', '2999-01-01')")
        for person in (eve_id, bob):
            answer = await post(eve, f"/admin/people/{person}", act="level", permission="admin")
            assert "until a date makes nobody one" in answer.text
        assert (await post(eve, f"/admin/people/{bob}", act="level", permission="user")).status_code == 200


async def test_what_is_dangerous_wants_a_fresh_login(site: Site) -> None:
    bob = await write_scene(site)
    path = f"/admin/people/{bob}"
    async with site.browser("ann") as ann:
        await site.parley.sql("SELECT parley_set_permission(:id, 'admin')", id=bob)
        await post(ann, path, act="level", permission="guest")
        demotion = await site.parley.value("SELECT max(id) FROM audit_log")
        name = await site.parley.value("SELECT name FROM admin.users WHERE id = :id", id=bob)
        # Sixteen minutes later.
        await site.parley.sql("UPDATE web_sessions SET created_at = now() - interval '16 minutes'")
        for fields in (
            {"act": "level", "permission": "admin"},
            {"act": "undo", "entry": str(demotion)},
            {"act": "erase", "name": name},
        ):
            answer = await post(ann, path, **fields)
            assert answer.status_code == 422
            assert "login of the last 15 minutes" in answer.text
        assert (await post(ann, path, act="level", permission="user")).status_code == 200
        old = TOKEN.findall((await ann.get(path)).text)[0]
        assert (await ann.get(site.link("ann"), headers=BY_HAND)).status_code == 200
        # Of a form that was open meanwhile nothing is lost, and nothing is done.
        stale = await ann.post(path, data={"token": old, "act": "budget", "tokens": "77"})
        assert stale.status_code == 422
        assert "logged in anew" in stale.text
        assert 'value="77"' in stale.text
        assert "is being erased" in (await post(ann, path, act="erase", name=name)).text
    assert await site.parley.value("SELECT user_id FROM erasures") == bob


async def test_a_form_counts_from_our_own_page_with_its_token_alone(site: Site) -> None:
    await write_scene(site)
    await make_person(site, "eve", "admin")
    before = await snapshot(site.parley)
    fields = {"act": "pause"}
    async with site.browser("ann") as ann, site.browser("eve") as eve:
        absence = content(await ann.get("/admin/nowhere"))
        foreign, own = [TOKEN.findall((await client.get(SERVER)).text)[0] for client in (eve, ann)]
        for token in ("", "x", foreign, own[:-2]):
            assert (await ann.post(SERVER, data={"token": token, **fields})).status_code == 404
        for site_header in ("cross-site", "same-site", "none"):
            headers = {"Sec-Fetch-Site": site_header}
            assert (await ann.post(SERVER, data={"token": own, **fields}, headers=headers)).status_code == 404
        for forged in (
            "/admin/people/999",
            "/admin/people/99999999999999999999",
            "/admin/servers/0",
            "/admin/people/x",
        ):
            assert content(await ann.get(forged)) == absence
        assert content(await ann.post(SERVER, data={"token": own, "act": "drop"})) == absence
    assert await snapshot(site.parley) == before
