"""`/admin/personas`: who the agent is in a place; its editor, its versions, and what a change would have answered."""

from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy.ext.asyncio import AsyncSession
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from adapters.web.admin.personas.draft import Draft, from_row, to_fields, to_parameters
from adapters.web.admin.personas.picture import make_portrait
from adapters.web.admin.personas.preview import build_preview
from adapters.web.admin.visit import OTHER_LOGIN, Visit
from adapters.web.texts import say
from agent.commands.forms.entries import Form
from agent.people.persona_versions import describe_change, list_differences
from shared.db.errors import refusals
from shared.db.statements import load_statements
from shared.errors import ParleyError, Refusal
from shared.text import to_sentence

if TYPE_CHECKING:
    from agent.commands.dry_run.recorded import RecordedTurn

statements = load_statements(__file__)

# These show something of what was entered, and store nothing.
SHOWING = ("preview", "try")
# Who has a dry run now. It holds nothing of a budget, so that many at once would exceed it by as many calls.
PAYERS: set[int] = set()


async def list_personas(visit: Visit) -> Response:
    """Show all personas, and those that were deleted."""
    await visit.act({})
    return await show_list(visit)


async def show_list(visit: Visit) -> Response:
    """Return the page of all personas."""
    return visit.render(
        "personas/personas.html",
        title=say("admin.personas"),
        personas=await visit.rows(statements.list_personas),
        deleted=await visit.rows(statements.list_deleted),
    )


async def make_persona(visit: Visit) -> Response:
    """Show the form of a new persona, and make it."""
    if visit.form.text("act") in SHOWING:
        return await show_editor(visit, None, Draft(visit.form.values))
    await visit.act({"save": create})
    if visit.outcome is not None and visit.outcome.is_done:
        return await show_list(visit)
    return await show_editor(visit, None, Draft(visit.form.values))


async def edit_persona(visit: Visit) -> Response:
    """Show a persona in its form; change or delete it, or show what a change comes to."""
    id_ = visit.path_params["persona"]
    if visit.form.text("act") in SHOWING:
        row = await visit.row(statements.read_persona, id=id_)
        return await show_editor(visit, row, Draft(visit.form.values))
    portrait = await make_portrait(visit) if visit.form.text("act") == "picture" else None
    acts = {
        "save": partial(change, id_),
        "delete": partial(delete, id_),
        "picture": partial(set_picture, id_, portrait),
    }
    await visit.act(acts | {"no-picture": partial(set_picture, id_, None)})
    rows = await visit.rows(statements.read_persona, id=id_)
    if not rows:
        if visit.outcome is not None and visit.outcome.is_done:
            return await show_list(visit)
        raise HTTPException(404)
    is_refused = visit.outcome is not None and visit.outcome.act == "save" and not visit.outcome.is_done
    return await show_editor(visit, rows[0], Draft(visit.form.values) if is_refused else from_row(rows[0]))


async def show_editor(visit: Visit, row: Any, draft: Draft) -> Response:
    """Return the page of one persona, None for a new one; what was entered is previewed or tried as the form asks."""
    act, preview, replay, problem = visit.form.text("act"), None, None, None
    if act in SHOWING:
        try:
            if visit.form.text("token") != visit.admin.token:
                raise Refusal(OTHER_LOGIN)
            parameters = to_parameters(visit.form)
            await check(visit, row, parameters)
            if act == "preview":
                preview = await build_preview(visit, parameters)
            elif row is not None:
                replay = await try_persona(visit, row, parameters)
        except ParleyError as error:
            problem = to_sentence(str(error))
    words = await visit.row(statements.list_words)
    newest = (
        [] if row is None else await visit.rows(statements.find_newest_turn, id=row.id, user_id=visit.admin.user.id)
    )
    return visit.render(
        "personas/persona.html",
        title=say("admin.new_persona") if row is None else row.name,
        persona=row,
        draft=draft,
        words=words,
        modules=sorted(visit.app.tools.modules.modules.union(words.modules or ())),
        servers=await visit.rows(statements.list_servers),
        preview=preview,
        replay=replay,
        problem=problem,
        newest_turn=newest[0].id if newest else None,
    )


async def check(visit: Visit, row: Any, parameters: dict[str, Any]) -> None:
    """Raise `Refusal` for what could not be stored, before anything is built on it."""
    if row is not None:
        parameters = parameters | {"name": row.name, "new_name": parameters["name"]}
    with refusals():
        async with visit.app.database.transaction() as session:
            attempt = await session.begin_nested()
            await session.execute(statements.define_persona, parameters)
            await attempt.rollback()


async def try_persona(visit: Visit, row: Any, parameters: dict[str, Any]) -> Any:
    """Let the persona as it stands in the form answer a recorded turn again, on this admin's account; no tool runs."""
    # Imported here: a dry run is rare, and builds on all that a turn does.
    from agent.commands.dry_run.replay import DryRun
    from agent.commands.dry_run.trials import Trial, prepare_trial

    turn = visit.form.number("turn")
    if turn is None:
        raise Refusal(say("admin.dry_run_turn_is_missing"))
    payer = visit.admin.user.id
    run = DryRun(visit.app.turns, payer)
    trial = Trial(row.name, fields=to_fields(parameters), turns=(turn,))
    (prepared,) = await prepare_trial(visit.app, run, trial)
    if prepared.recorded.user.id != payer:
        check_privacy(visit, prepared.recorded)
    if payer in PAYERS:
        raise Refusal(say("admin.dry_run_is_running"))
    PAYERS.add(payer)
    try:
        return await run.replay(prepared)
    finally:
        PAYERS.discard(payer)


def check_privacy(visit: Visit, turn: "RecordedTurn") -> None:
    """Raise `Refusal` for another's turn whose prompt holds what is theirs alone: instructions could ask for it."""
    if turn.conversation.place.is_direct:
        raise Refusal(say("admin.turn_is_private", id=turn.id))
    steps = [*turn.steps, *(past.step for past in turn.history)]
    if any(step.tool.name.partition(".")[0] not in visit.open_modules for step in steps if step.role == "tool_call"):
        raise Refusal(say("admin.turn_has_private_results", id=turn.id))


async def create(session: AsyncSession, form: Form) -> str:
    """Make a persona."""
    parameters = to_parameters(form)
    taken = (await session.execute(statements.find_named, {"name": parameters["name"]})).first()
    if taken is not None:
        raise Refusal(say("admin.persona_is_there_already", name=parameters["name"]))
    return str((await session.execute(statements.define_persona, parameters)).scalar_one())


async def change(id_: int, session: AsyncSession, form: Form) -> str:
    """Make a persona what the form says, unless somebody else has changed it since it was shown."""
    parameters = to_parameters(form)
    name = await lock(session, id_)
    newest = (await session.execute(statements.read_version, {"id": id_})).one()
    if form.text("version") != str(newest.version):
        raise Refusal(say("admin.persona_changed_meanwhile", who=newest.who, version=newest.version))
    parameters |= {"name": name, "new_name": parameters["name"]}
    return str((await session.execute(statements.define_persona, parameters)).scalar_one())


async def delete(id_: int, session: AsyncSession, _form: Form) -> str:
    """Delete a persona; its turns stay, and undoing brings it back."""
    return str((await session.execute(statements.delete_persona, {"name": await lock(session, id_)})).scalar_one())


async def set_picture(id_: int, portrait: bytes | Refusal | None, session: AsyncSession, _form: Form) -> str:
    """Give a persona its picture, None takes it away; raises the `Refusal` of an upload."""
    if isinstance(portrait, Refusal):
        raise portrait
    parameters = {"name": await lock(session, id_), "picture": portrait}
    return str((await session.execute(statements.set_picture, parameters)).scalar_one())


async def lock(session: AsyncSession, id_: int) -> str:
    """Return the name of the persona, which nobody else changes until the transaction ends; raises a 404 without it."""
    name = (await session.execute(statements.lock_persona, {"id": id_})).scalar_one_or_none()
    if name is None:
        raise HTTPException(404)
    return str(name)


async def show_versions(visit: Visit) -> Response:
    """Show what a persona was, also a deleted one, what differs between two versions, and the way back."""
    id_ = visit.path_params["persona"]
    await visit.act({"roll-back": partial(roll_back, id_)})
    versions = await visit.rows(statements.list_versions, id=id_)
    if not versions:
        raise HTTPException(404)
    numbers = {version.version: version for version in versions}
    last = versions[0].version
    old = numbers.get(_to_number(visit.query("old")), versions[min(1, len(versions) - 1)])
    new = numbers.get(_to_number(visit.query("new")), versions[0])
    old_text, new_text = [
        await visit.row(statements.read_fields, id=id_, version=version.version) for version in (old, new)
    ]
    return visit.render(
        "personas/versions.html",
        title=say("admin.versions_of_name", name=versions[0].name),
        id=id_,
        versions=[
            (version, describe_change(version, earlier))
            for version, earlier in zip(versions, [*versions[1:], None], strict=True)
        ],
        last=last,
        old=old,
        new=new,
        differences=list_differences(old_text, new_text)[2:],
        is_deleted=versions[0].action == "delete",
    )


async def roll_back(id_: int, session: AsyncSession, form: Form) -> str:
    """Make a persona what it was in a version."""
    rows = (await session.execute(statements.list_versions, {"id": id_})).all()
    if not rows:
        raise HTTPException(404)
    named = {"name": rows[0].name}
    if (await session.execute(statements.find_persona, named)).scalar_one() != id_:
        raise Refusal(say("admin.persona_name_is_taken", name=rows[0].name))
    return str((await session.execute(statements.roll_back, named | {"version": form.number("key")})).scalar_one())


def _to_number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


BOTH = ["GET", "POST"]
ROUTES = (
    Route("/admin/personas", list_personas, methods=BOTH),
    Route("/admin/personas/new", make_persona, methods=BOTH),
    Route("/admin/personas/{persona:int}", edit_persona, methods=BOTH),
    Route("/admin/personas/{persona:int}/versions", show_versions, methods=BOTH),
)
