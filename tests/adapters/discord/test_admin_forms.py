"""The forms of `/admin`, `/grant` and `/refuse` on Discord: each act is the database's own, once, and can be undone."""

from collections.abc import Mapping

import pytest
from sqlalchemy import text

from tests.adapters.discord.conftest import Scene
from tests.adapters.discord.test_servers import give, make_role
from tests.standins.discord import Interaction, Json, Person
from tests.support.forms import ASK_FOR_MORE, GRANT_ROLE, snapshot, write_people

NOT_ADMIN = "This needs the permission admin; yours is guest."


async def begin(scene: Scene) -> None:
    """Let Ann be an owner and Bob a guest who has written."""
    await scene.discord.until(lambda: scene.discord.commands)
    await write_people(scene.parley, "discord", scene.guild["id"], owner=scene.ann.id, guest=scene.bob.id)


async def open_form(scene: Scene, person: Person, act: str) -> Interaction:
    """Return the form of an act, opened by its command."""
    return await (await person.types("admin", scene.general, act=act)).acked()


def row_of(interaction: Interaction) -> Json:
    """Return the message that a form was answered with."""
    return interaction.messages[0]


async def test_the_six_acts_are_done_undone_and_audited(server: Scene) -> None:
    await begin(server)
    menu = await server.ann.types("admin", server.general)
    await menu.answered()
    assert menu.is_private
    labels = [button["label"] for row in row_of(menu)["components"] for button in row["components"]]
    assert labels == ["Pause", "Limit", "Grant", "Channel mode", "Persona", "Undo"]
    bob = {"person": server.bob.id}
    acts: list[tuple[str, Mapping[str, str], str]] = [
        ("Pause", bob, f"{server.bob.id} is paused"),
        ("Limit", bob | {"scope": "=person", "dollars": "2.50"}, "the person may use 2.50 dollars in a month"),
        ("Grant", bob | {"permission": "=user", "tokens": "7", "days": "3"}, "7 tokens more until 20"),
        ("Channel mode", {"mode": "=always"}, "it answers every message"),
        ("Persona", {"persona": "=Sage"}, "The persona Sage answers in the channel"),
    ]
    for label, fields, sentence in acts:
        before = await snapshot(server.parley)
        form = await (await server.ann.clicks(row_of(menu), label)).acked()
        submission = await server.ann.fills(form, **fields)
        assert sentence in await submission.answered(), label
        assert submission.is_private
        assert await snapshot(server.parley) != before
        undone = await server.ann.clicks(row_of(submission), "Take it back")
        assert await undone.answered()
        assert await snapshot(server.parley) == before, label
    assert "is undone already" in await (await server.ann.clicks(row_of(submission), "Take it back")).answered()

    # The form that undoes lists what is not undone, here the undoings themselves.
    undo = await open_form(server, server.ann, "undo")
    (label,) = undo.form["components"]
    assert " by you: " in label["component"]["options"][0]["label"]
    assert "has its old values again" in await (await server.ann.fills(undo)).answered()
    assert await server.value("SELECT count(DISTINCT who) FROM admin.audit WHERE who LIKE 'discord:%'") == 1
    assert server.bob.reads(server.general) == []


async def test_what_is_refused_is_said_and_can_be_changed(server: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    await begin(server)
    before = await snapshot(server.parley)
    for name in ("admin", "grant", "refuse"):
        refusal = await server.bob.types(name, server.general)
        assert (await refusal.answered(), refusal.is_private) == (NOT_ADMIN, True)
    refusal = await server.bob.types("admin", server.general, act="pause")
    assert (await refusal.answered(), refusal.is_private) == (NOT_ADMIN, True)
    assert await (await server.ann.types("grant", server.general)).answered() == "Nobody asks for more just now."

    form = await open_form(server, server.ann, "limit")
    wrong = await server.ann.fills(form, tokens="a lot", dollars="2", period="=day")
    assert "is no whole number" in await wrong.answered()
    again = await (await server.ann.clicks(row_of(wrong), "Change it")).acked()
    values = [label["component"].get("value") for label in again.form["components"]]
    assert values[2:4] == ["a lot", "2"]
    assert [option.get("default") for option in again.form["components"][4]["component"]["options"]] == [None, True]

    log = capsys.readouterr().out
    assert ("form_refused" in log, "a lot" in log) == (True, False)

    # Values that no client offers, and forms of others.
    elsewhere = server.discord.world.add_channel(server.discord.world.add_guild("Other", server.ann.user)["id"], "x")
    stranger = Person(server.discord, "Eve")
    forged: list[tuple[str, Mapping[str, str], str]] = [
        ("mode", {"mode": "=always", "channel": str(elsewhere["id"])}, "This channel is not on this server."),
        ("mode", {"mode": "=loud"}, "There is no mode 'loud'"),
        ("mode", {"mode": "=lo\x00ud\ud800"}, "There is no mode 'loud\ufffd'"),
        ("pause", {"person": stranger.id}, "This person is not on this server."),
        ("pause", {"what": "=person"}, "Choose the person."),
        ("limit", {"scope": "=installation"}, "Choose one of what the list has."),
        ("undo", {"entry": "=999"}, "The log of changes has no entry 999"),
    ]
    for act, fields, sentence in forged:
        submission = await server.ann.forges(await open_form(server, server.ann, act), **fields)
        assert sentence in await submission.answered(), act
    stolen = await open_form(server, server.ann, "mode")
    assert "These buttons are for" in await (await server.bob.fills(stolen, mode="=off")).answered()
    assert await snapshot(server.parley) == before

    # An admin is below an owner.
    await server.sql("SELECT parley_set_permission(admin.find_user('discord', :id), 'admin')", id=server.bob.id)
    submission = await server.bob.fills(await open_form(server, server.bob, "pause"), person=server.ann.id)
    assert (
        await submission.answered()
        == "Only an owner may change an owner, make somebody one, or read what is remembered of one."
    )
    raised = await open_form(server, server.bob, "grant")
    submission = await server.bob.fills(raised, person=server.bob.id, permission="=owner")
    assert "Only an owner" in await submission.answered()


async def test_a_role_of_a_server_counts_there_alone(server: Scene) -> None:
    await begin(server)
    role = await make_role(server, "Mods")
    give(server, server.bob, role)
    await server.sql(GRANT_ROLE, platform="discord", server=server.guild["id"], role=role["id"])
    await server.sql("SELECT admin.bind_persona('Rogue', 'discord', '1', '2')")

    for act, fields, sentence in (
        ("mode", {"mode": "=off"}, "it answers never"),
        ("persona", {"persona": "=Sage"}, "The persona Sage answers"),
        ("limit", {"scope": "=server", "tokens": "9"}, "the server may use 9 tokens"),
        ("persona", {"persona": "=Rogue"}, "There is no persona 'Rogue'; there are: Sage."),
        ("pause", {"person": server.ann.id}, "Only an owner may change an owner"),
        ("grant", {"person": server.bob.id, "tokens": "9", "days": "1"}, "A role of this server lets you change"),
        ("grant", {"person": server.bob.id, "permission": "=user"}, "A role of this server lets you change"),
    ):
        submission = await server.bob.forges(await open_form(server, server.bob, act), **fields)
        assert sentence in await submission.answered(), act
    personas = await open_form(server, server.bob, "persona")
    options = personas.form["components"][1]["component"]["options"]
    assert [option["label"] for option in options] == ["None of its own", "Sage"]
    undo = await open_form(server, server.bob, "undo")
    assert len(undo.form["components"][0]["component"]["options"]) == 3
    # What others have changed is not there for them, on their own server either.
    for _ in range(2):
        others = await server.value("SELECT max(id) FROM admin.audit WHERE who NOT LIKE 'discord:%'")
        submission = await server.bob.forges(undo, entry=f"={others}")
        assert f"The log of changes has no entry {others}" in await submission.answered()
        await server.sql("SELECT admin.set_channel_mode('discord', :id, '5', 'off')", id=server.guild["id"])
    assert "is deleted again" in await (await server.bob.fills(undo)).answered()


async def test_a_limit_comes_back_with_its_grants_and_a_lost_role_counts_at_once(server: Scene) -> None:
    await begin(server)
    role = await make_role(server, "Mods")
    give(server, server.bob, role)
    await server.sql(GRANT_ROLE, platform="discord", server=server.guild["id"], role=role["id"])
    limited = await server.bob.fills(await open_form(server, server.bob, "limit"), scope="=server", tokens="9")
    assert "may use 9 tokens" in await limited.answered()
    limit = await server.value("SELECT id FROM budgets")
    await server.sql("SELECT admin.grant_more('budgets', :id, now() + interval '1 day', tokens => 5)", id=limit)
    lifted = await server.bob.fills(await open_form(server, server.bob, "limit"), scope="=server")
    assert "no limit for a month any more" in await lifted.answered()
    assert "is there again" in await (await server.bob.clicks(row_of(lifted), "Take it back")).answered()
    back = "SELECT token_limit + tokens FROM budgets JOIN budget_grants ON limit_budget_id = budgets.id"
    assert await server.value(back) == 14
    # More than the button has room for is not taken back in part.
    more = "SELECT admin.grant_more('budgets', :id, now() + interval '1 day', tokens => 1) FROM generate_series(1, 10)"
    await server.sql(more, id=limit)
    lifted = await server.bob.fills(await open_form(server, server.bob, "limit"), scope="=server")
    assert "no limit for a month any more" in await lifted.answered()
    assert not row_of(lifted).get("components")

    form = await open_form(server, server.bob, "mode")
    async with server.parley.app.database.transaction() as session:
        await session.execute(text("DELETE FROM role_grants"))
        submission = await (await server.bob.fills(form, mode="=always")).acked()
    assert await submission.answered() == "Only admins and owners may do this."


async def test_a_form_counts_once_also_while_the_database_is_slow(server: Scene) -> None:
    await begin(server)
    await server.sql(ASK_FOR_MORE, account=server.bob.id)
    form = await (await server.ann.types("grant", server.general)).acked()
    async with server.parley.app.database.transaction() as session:
        await session.execute(text("LOCK TABLE inbox IN EXCLUSIVE MODE"))
        submission = await (await server.ann.fills(form, days="2")).acked()
        assert submission.is_private
    assert "more were granted" in await submission.answered()
    assert "was sent before" in await (await server.ann.fills(form, days="2")).answered()
    assert await server.value("SELECT count(*) FROM budget_grants WHERE status = 'granted'") == 1

    await server.sql(ASK_FOR_MORE, account=server.bob.id)
    refusing = await (await server.ann.types("refuse", server.general)).acked()
    assert "was refused" in await (await server.ann.fills(refusing)).answered()
    async with server.parley.app.database.transaction() as session:
        await session.execute(text("LOCK TABLE users IN ACCESS EXCLUSIVE MODE"))
        late = await (await server.ann.types("admin", server.general, act="pause")).acked()
    assert "please try again in a moment" in await late.answered()
