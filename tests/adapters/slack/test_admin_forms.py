"""The forms of `/parley admin`, `grant` and `refuse`: each act is the database's own, once, and can be undone."""

import pytest
from sqlalchemy import text

from tests.adapters.slack.conftest import Scene
from tests.standins.slack import Interaction, Json, Person
from tests.support.forms import ASK_FOR_MORE, snapshot, write_people


async def begin(scene: Scene) -> None:
    """Let Ann be an owner and Bob a guest who has written."""
    await write_people(scene.parley, "slack", scene.slack.team_id, owner=scene.ann.id, guest=scene.bob.id)


async def open_form(scene: Scene, person: Person, line: str) -> Json:
    """Return the form that a command opens."""
    return await (await person.slash(scene.general, "/parley", line)).view()


def read_view(interaction: Interaction) -> str:
    """Return what the view says that a form has become."""
    assert interaction.response["response_action"] == "update", interaction.response
    return str(interaction.response["view"]["blocks"][0]["text"]["text"])


def problem(interaction: Interaction) -> str:
    """Return why a form is still open."""
    (sentence,) = interaction.response["errors"].values()
    return str(sentence)


async def view_after(scene: Scene, view: Json, words: str) -> Json:
    """Return a view as soon as it says this."""
    views = scene.slack.world.views
    await scene.slack.until(lambda: words in str(views[view["id"]]["blocks"]))
    return dict(views[view["id"]])


async def test_the_six_acts_are_done_undone_and_audited(office: Scene) -> None:
    await begin(office)
    menu = await office.ann.slash(office.general, "/parley", "admin")
    assert "Each opens a form" in (await menu.answered())[0]
    whisper = office.ann.whispers(office.general)[-1]
    bob = {"person": office.bob.id}
    acts: list[tuple[str, dict[str, str], str]] = [
        ("Pause", bob, f"{office.bob.id} is paused"),
        ("Limit", {"tokens": "50,000", "period": "=day"}, "the channel may use 50000 tokens in a day"),
        ("Grant", bob | {"permission": "=user", "tokens": "7", "days": "3"}, "7 tokens more until 20"),
        ("Channel mode", {"mode": "=always"}, "it answers every message"),
        ("Persona", {"persona": "=Sage"}, "The persona Sage answers in the channel"),
    ]
    for label, fields, sentence in acts:
        before = await snapshot(office.parley)
        form = await (await office.ann.presses(office.general, whisper, label)).view()
        # Whole, in the few letters that Slack has for it.
        assert "…" not in form["title"]["text"], label
        submission = await office.ann.submits(form, **fields)
        assert sentence in read_view(submission), label
        assert await snapshot(office.parley) != before
        # The view is what the acknowledgement has made of it.
        result = form | {"blocks": [{"block_id": "b", **block} for block in submission.response["view"]["blocks"]]}
        await office.ann.presses_in_view(result, "Take it back")
        await view_after(office, form, "Row ")
        assert await snapshot(office.parley) == before, label
    undo = await open_form(office, office.ann, "admin undo")
    assert "has its old values again" in read_view(await office.ann.submits(undo))
    assert await office.value("SELECT count(DISTINCT who) FROM admin.audit WHERE who LIKE 'slack:%'") == 1
    assert office.refusals() == []
    assert office.bob.reads(office.general) == []


async def test_what_is_refused_keeps_the_form_open_with_the_reason(
    office: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    await begin(office)
    before = await snapshot(office.parley)
    for line in ("admin", "admin pause", "grant", "refuse"):
        interaction = await office.bob.slash(office.general, "/parley", line)
        assert (await interaction.answered())[-1] == "This needs the permission admin; yours is guest."
        assert [response["response_type"] for response in interaction.responses] == ["ephemeral"]
    nothing = await office.ann.slash(office.general, "/parley", "refuse")
    assert (await nothing.answered())[-1].startswith("Nobody asks")

    limit = await open_form(office, office.ann, "admin limit")
    assert "is no whole number" in problem(await office.ann.submits(limit, tokens="a lot"))
    log = capsys.readouterr().out
    assert "form_refused" in log
    assert "a lot" not in log
    mode = await open_form(office, office.ann, "admin mode")
    assert problem(await office.ann.submits(mode, mode="=off", channel="C0ELSEWHERE")).startswith("I can't see")
    assert problem(await office.ann.submits(mode, mode="=loud")).startswith("There is no mode 'loud'")
    assert "for <@" in problem(await office.bob.submits(mode, mode="=off"))
    pause = await open_form(office, office.ann, "admin pause")
    assert problem(await office.ann.submits(pause, person="U0NOBODY")) == "I find no such person in this workspace."
    assert problem(await office.ann.submits(pause)) == "Choose the person."
    assert await snapshot(office.parley) == before
    await office.sql("SELECT parley_set_permission(admin.find_user('slack', :id), 'admin')", id=office.bob.id)
    above = await open_form(office, office.bob, "admin pause")
    assert problem(await office.bob.submits(above, person=office.ann.id)).startswith("Only an owner may change")


async def test_a_reason_stands_beside_the_field_that_it_is_about(office: Scene) -> None:
    await begin(office)
    wrong: list[tuple[str, dict[str, str], str]] = [
        ("admin pause", {}, "person"),
        ("admin limit", {"scope": "=person"}, "person"),
        ("admin limit", {"tokens": "a lot"}, "tokens"),
        ("admin limit", {"dollars": "a lot"}, "dollars"),
        ("admin grant", {"person": office.bob.id}, "permission"),
        ("admin grant", {"person": office.bob.id, "tokens": "7"}, "days"),
        ("admin grant", {"person": office.bob.id, "tokens": "7", "days": "0"}, "days"),
        ("admin grant", {"person": "U0NOBODY", "tokens": "7"}, "person"),
        ("admin mode", {"mode": "=off", "channel": "C0ELSEWHERE"}, "channel"),
    ]
    for line, fields, field in wrong:
        form = await open_form(office, office.ann, line)
        assert list((await office.ann.submits(form, **fields)).response["errors"]) == [field], (line, fields)


async def test_who_takes_back_reads_by_whom_each_change_is_and_that_there_are_more(office: Scene) -> None:
    await begin(office)
    grant = await open_form(office, office.ann, "admin grant")
    await office.ann.submits(grant, person=office.bob.id, permission="=user", tokens="7", days="3")

    field = (await open_form(office, office.ann, "admin undo"))["blocks"][0]
    texts = [option["text"]["text"] for option in field["element"]["options"]]
    latest = [text.partition(" by you: ")[2] for text in texts[:2]]
    assert latest == ["added one of budget grants", "changed user 2 (users)"]
    assert all(" by parley_app: " in text for text in texts[2:])
    details = [option.get("description", {}).get("text", "") for option in field["element"]["options"]]
    assert details[1].startswith("permission_after, permission_level")
    assert field["label"]["text"] == "The change to take back"

    add_personas = "INSERT INTO personas (name, system_prompt) SELECT 'P' || n, 'Be.' FROM generate_series(1, 25) AS n"
    await office.sql(add_personas)
    more = (await open_form(office, office.ann, "admin undo"))["blocks"][0]
    assert more["label"]["text"] == "The change to take back (the latest 25)"
    assert office.refusals() == []


async def test_a_form_counts_once_also_while_the_database_is_slow(office: Scene) -> None:
    await begin(office)
    await office.sql(ASK_FOR_MORE, account=office.bob.id)
    form = await open_form(office, office.ann, "grant")
    async with office.parley.app.database.transaction() as session:
        await session.execute(text("LOCK TABLE inbox IN EXCLUSIVE MODE"))
        assert read_view(await office.ann.submits(form, amount="70", days="2")) == "One moment…"
    await view_after(office, form, "70 tokens more were granted")
    assert "was sent before" in problem(await office.ann.submits(form, amount="70", days="2"))
    assert await office.value("SELECT count(*) FROM budget_grants WHERE status = 'granted'") == 1

    # What is refused late stands in the form again, with what was entered.
    limit = await open_form(office, office.ann, "admin limit")
    async with office.parley.app.database.transaction() as session:
        await session.execute(text("LOCK TABLE inbox IN EXCLUSIVE MODE"))
        assert read_view(await office.ann.submits(limit, tokens="a lot", scope="=server")) == "One moment…"
    again = await view_after(office, limit, "is no whole number")
    entered = {block["block_id"]: block.get("element", {}) for block in again["blocks"]}
    assert entered["tokens"]["initial_value"] == "a lot"
    assert entered["scope"]["initial_option"]["value"] == "=server"
    assert "the server may use 5 tokens" in read_view(await office.ann.submits(again, tokens="5"))
    assert office.refusals() == []
