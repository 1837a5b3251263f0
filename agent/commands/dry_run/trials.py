"""What is tried in a dry run: a persona with changes, on some of the turns that are recorded."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from agent.commands.dry_run.recorded import choose_turns, read_turn
from agent.commands.dry_run.replay import DryRun, Prepared
from agent.people.participants import ResolvedPersona
from agent.people.personas import get_persona, with_fields
from shared.db.statements import load_statements
from shared.errors import Refusal

if TYPE_CHECKING:
    from agent.app import App

statements = load_statements(__file__)


class Trial(Struct, frozen=True):
    """A persona by its name, what of it is changed, and the turns, or how many of its last ones.

    `version` is one of the persona's; `fields` are columns as in `persona_versions.fields`; `prompt` and `model`
    come last.
    """

    persona: str
    prompt: str | None = None
    model: str | None = None
    version: int | None = None
    fields: Mapping[str, Any] | None = None
    turns: Sequence[int] = ()
    last: int = 0


async def prepare_trial(app: "App", run: DryRun, trial: Trial) -> list[Prepared]:
    """Return the turns, ready to be answered again; raises `Refusal` for a persona, version or turn that is missing."""
    async with app.database.transaction() as session:
        parameters = {"name": trial.persona, "version": trial.version}
        row = (await session.execute(statements.find_version, parameters)).one_or_none()
        if row is None:
            raise Refusal(f"There is no persona {trial.persona!r}; `parley persona list` shows them.")
        if trial.version is not None and row.fields is None:
            raise Refusal(f"{trial.persona} has no version {trial.version}; `parley persona history` shows them.")
        turn_ids = await choose_turns(session, persona_id=row.id, ids=trial.turns, last=trial.last)
    prepared = []
    for turn_id in turn_ids:
        turn = await read_turn(app.database, app.memory, turn_id)
        async with app.database.transaction() as session:
            persona = await get_persona(session, row.id, turn.user.permission, settings=app.settings)
        prepared.append(run.prepare(turn, _change(persona, trial, row.fields)))
    return prepared


def _change(persona: ResolvedPersona, trial: Trial, version: Mapping[str, Any] | None) -> ResolvedPersona:
    for fields in (version, trial.fields):
        if fields is not None:
            persona = with_fields(persona, fields)
    if trial.prompt is not None:
        persona = replace(persona, system_prompt=trial.prompt)
    return persona if trial.model is None else replace(persona, model=trial.model)
