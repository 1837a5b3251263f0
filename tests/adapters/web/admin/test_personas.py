"""What admins do with personas: write, preview, try, store, compare, take back; each act stands in the log."""

import asyncio
import re
from html import unescape
from typing import Any

import httpx

from tests.adapters.web.admin.conftest import HOSTILE, make_person, post
from tests.adapters.web.conftest import Site
from tests.standins.openai_api import Answer
from tests.standins.openai_api.script import gated_answer
from tests.support.connections import connected, until_somebody_waits

SAGE = "/admin/personas/1"
SUM = ("calculator__calculate", {"expression": "2 + 3"})
FIELD = re.compile(r'name="([\w.]+)" value="([^"]*)"')
AREA = re.compile(r'name="system_prompt"[^>]*>\n(.*?)</textarea>', re.DOTALL)


def entered(page: httpx.Response) -> dict[str, str]:
    """Return what stands in the form of a persona."""
    fields = {name: unescape(value) for name, value in FIELD.findall(page.text)}
    text = AREA.search(page.text)
    assert text is not None
    return fields | {"system_prompt": unescape(text[1])}


async def newest_entry(site: Site) -> Any:
    """Return the newest entry of the log of changes."""
    (row,) = await site.parley.sql("SELECT id, who, action, name, undoes FROM admin.audit LIMIT 1")
    return row


async def test_a_persona_is_written_changed_compared_and_taken_back(site: Site) -> None:
    await make_person(site, "ann", "admin")
    async with site.browser("ann") as ann:
        await make_sage(site, ann)
        id_ = await site.parley.value("SELECT id FROM personas")
        editor = f"/admin/personas/{id_}"
        form = entered(await ann.get(editor))
        assert form["version"] == "1"
        change = form | {"name": "Oracle", "only_modules": "on", "module.calculator": "on", "allow_mentions": "on"}
        change |= {"suggestions": f" {HOSTILE} \r\n\r\nWhat is new?\r\n"}
        preview = await post(ann, editor, **change | {"act": "preview"})
        assert "everywhere on test" in preview.text
        assert "calculator.calculate" in preview.text
        assert await site.parley.value("SELECT name FROM personas") == "Sage"
        stored = await post(ann, editor, **change | {"act": "save"})
        assert "The persona Oracle is changed." in stored.text
        assert HOSTILE not in stored.text
        (row,) = await site.parley.sql("SELECT name, allowed_modules, allow_mentions, suggestions FROM personas")
        assert tuple(row) == ("Oracle", ["calculator"], True, [HOSTILE, "What is new?"])
        # Who still has the old page open overwrites nothing, and loses nothing.
        late = await post(ann, editor, **form | {"act": "save", "system_prompt": "Late."})
        assert late.status_code == 422
        assert "It was changed meanwhile, by web:ann: it is version 2 now." in late.text
        assert entered(late)["system_prompt"] == "Late."
        await compare_and_roll_back(site, ann, editor)
        await store_late(site, ann, editor)


async def store_late(site: Site, ann: httpx.AsyncClient, editor: str) -> None:
    """Store a form while somebody else's change is about to be committed: it waits, and overwrites nothing."""
    form = entered(await ann.get(editor))
    async with connected(site.parley.app.database.address) as other:
        change = other.transaction()
        await change.start()
        await other.execute("UPDATE personas SET system_prompt = 'By somebody else.'")
        storing = asyncio.create_task(post(ann, editor, **form | {"act": "save", "system_prompt": "Late."}))
        await until_somebody_waits(other)
        await change.commit()
        assert "It was changed meanwhile" in (await storing).text
    # However long the instructions are, they are compared at once.
    prompts = ("\n".join(str(number * factor % 101) for number in range(60_000)) for factor in (7, 31))
    for prompt in prompts:
        await site.parley.sql("UPDATE personas SET system_prompt = :prompt", prompt=prompt)
    assert "58,000 more lines" in (await ann.get(f"{editor}/versions")).text


async def make_sage(site: Site, ann: httpx.AsyncClient) -> None:
    """Make a persona, after a try that is refused and loses nothing."""
    new = "/admin/personas/new"
    fields = {"name": "Sage", "system_prompt": f"You are wise.\r\n{HOSTILE}", "platform": "test"}
    refusal = await post(ann, new, act="save", **fields | {"max_temperature": "3"})
    assert refusal.status_code == 422
    assert "the rule is that max temperature is 0 to 2." in refusal.text
    refusal = await post(ann, new, act="save", **fields | {"max_tokens": "99999999999"})
    assert "refuses this: 99999999999 (value out of int32 range)." in refusal.text
    assert entered(refusal)["system_prompt"] == f"You are wise.\n{HOSTILE}"
    assert HOSTILE not in refusal.text
    creation = await post(ann, new, act="save", **fields)
    assert "The persona Sage is made." in creation.text
    entry = await newest_entry(site)
    assert (entry.who, entry.action, entry.name) == ("web:ann", "insert", "Sage")
    assert f'name="entry" value="{entry.id}"' in creation.text
    taken = await post(ann, new, act="save", **fields)
    assert "There is a persona Sage already" in taken.text


async def compare_and_roll_back(site: Site, ann: httpx.AsyncClient, editor: str) -> None:
    """Look at what has changed from the first to the second version, go back, and take that back."""
    versions = await ann.get(f"{editor}/versions")
    assert "changed: name, suggestions, allow_mentions, allowed_modules" in versions.text
    assert "<ins>+allow_mentions: true</ins>" in versions.text
    assert HOSTILE not in versions.text
    back = await post(ann, f"{editor}/versions", act="roll-back", key="1")
    assert "Sage is as in version 1 again; this is its version 3." in back.text
    undone = await post(ann, f"{editor}/versions", act="undo", entry=str((await newest_entry(site)).id))
    assert "has its old values again" in undone.text
    assert await site.parley.value("SELECT name FROM personas") == "Oracle"
    assert "has the versions 1 to 4, not 9" in (await post(ann, f"{editor}/versions", act="roll-back", key="9")).text


async def test_a_deleted_persona_comes_back_but_not_in_the_place_of_another(site: Site) -> None:
    await make_person(site, "ann", "admin")
    await site.parley.sql("SELECT admin.create_persona('Sage', 'First.')")
    id_ = await site.parley.value("SELECT id FROM personas")
    async with site.browser("ann") as ann:
        await post(ann, f"/admin/personas/{id_}", act="delete")
        entry = str((await newest_entry(site)).id)
        undone = await post(ann, f"/admin/personas/{id_}", page="/admin/personas/new", act="undo", entry=entry)
        assert "is there again" in undone.text
        assert entered(undone)["name"] == "Sage"
        deleted = await post(ann, f"/admin/personas/{id_}", act="delete")
        assert "The persona Sage is deleted." in deleted.text
        assert f"/admin/personas/{id_}/versions" in deleted.text
        assert (await ann.get(f"/admin/personas/{id_}")).status_code == 404
        await site.parley.sql("SELECT admin.create_persona('Sage', 'Second.')")
        versions = f"/admin/personas/{id_}/versions"
        refusal = await post(ann, versions, act="roll-back", key="1")
        assert "Another persona is called Sage now" in refusal.text
        await site.parley.sql("UPDATE personas SET name = 'Other'")
        assert "is as in version 1 again" in (await post(ann, versions, act="roll-back", key="1")).text
        rows = await site.parley.sql("SELECT id, name, system_prompt FROM personas ORDER BY id")
        assert [tuple(row) for row in rows] == [(id_, "Sage", "First."), (id_ + 1, "Other", "Second.")]
        for missing in ("999", "999/versions", "9223372036854775808"):
            assert (await ann.get(f"/admin/personas/{missing}")).status_code == 404
        assert (await ann.post(f"/admin/personas/{id_}", data={"act": "delete", "token": "x"})).status_code == 404
    assert await site.parley.value("SELECT count(*) FROM personas") == 2


async def test_a_turn_is_answered_again_on_the_account_of_who_tries_it(site: Site) -> None:
    admin = await make_person(site, "ann", "admin")
    private_turns, open_turn = await answer_people(site)
    site.parley.model.play(lambda body, _number: Answer(f"Now with: {body['messages'][0]['content'][:12]} {HOSTILE}"))
    async with site.browser("ann") as ann:
        form = entered(await ann.get(SAGE))
        assert form["turn"] == str(open_turn)
        calls = site.parley.model.count
        tried = await post(ann, SAGE, **form | {"act": "try", "system_prompt": "Be a pirate."})
        assert "In a channel." in tried.text
        assert "Now with: Be a pirat" in tried.text
        assert HOSTILE not in tried.text
        assert entered(tried)["system_prompt"] == "Be a pirate."
        assert site.parley.model.count == calls + 1
        (row,) = await site.parley.sql("SELECT user_id, purpose FROM token_logs ORDER BY id DESC LIMIT 1")
        assert tuple(row) == (admin, "dry_run")
        assert await site.parley.value("SELECT system_prompt FROM personas") == "You are wise."
        # A model that makes the recorded call for ever is asked as often as the persona allows, and not for ever.
        site.parley.model.play(lambda _body, _number: Answer(tool_calls=[SUM]))
        await post(ann, SAGE, **form | {"act": "try", "max_iterations": "2"})
        assert site.parley.model.count == calls + 4
        await refuse_private_turns(site, ann, form, turns=(*private_turns, 999))
        await try_two_at_once(site, ann, form)
        await site.parley.sql("UPDATE users SET token_budget_monthly = 0 WHERE id = :id", id=admin)
        assert "budget" in (await post(ann, SAGE, **form | {"act": "try"})).text
    assert site.parley.model.count == calls + 5


async def answer_people(site: Site) -> tuple[tuple[int, int], int]:
    """Let Sage answer in private, with what is remembered, and openly; return the numbers of the turns."""
    await site.parley.sql("SELECT admin.create_persona('Sage', 'You are wise.', platform => 'test')")
    recall = Answer(tool_calls=[("knowledge__recall", {"query": "plums"})])
    site.parley.model.play(["In private.", recall, "Nothing.", Answer(tool_calls=[SUM]), "In a channel."])
    private = await site.parley.ask("What do you know of me?", user="ben", is_direct=True)
    remembered = await site.parley.ask("What do I like?", user="eve", server="s2", channel="c2")
    answer = await site.parley.ask("What is love?", user="ben", server="s1")
    return (private.turn_id, remembered.turn_id), answer.turn_id


async def refuse_private_turns(
    site: Site, ann: httpx.AsyncClient, form: dict[str, str], *, turns: tuple[int, ...]
) -> None:
    """Try turns in whose prompts stands what is somebody's own, and a persona that could not be stored."""
    calls = site.parley.model.count
    for turn in turns:
        refusal = await post(ann, SAGE, **form | {"act": "try", "turn": str(turn)})
        assert 'id="problem"' in refusal.text
    refusal = await post(ann, SAGE, **form | {"act": "try", "max_iterations": "1000000"})
    assert "the rule is that max iterations is 1 to 100." in refusal.text
    assert site.parley.model.count == calls


async def try_two_at_once(site: Site, ann: httpx.AsyncClient, form: dict[str, str]) -> None:
    """Try a persona while another try runs: none of them holds a part of the budget, so it is one at a time."""
    calls = site.parley.model.count
    hold, answer = gated_answer("At last.")
    site.parley.model.play(answer)
    first = asyncio.create_task(post(ann, SAGE, **form | {"act": "try"}))
    await site.parley.model.until(calls + 1)
    assert "A dry run of yours is still going" in (await post(ann, SAGE, **form | {"act": "try"})).text
    hold.set()
    assert "At last." in (await first).text
