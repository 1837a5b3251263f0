"""`parley persona …`: which persona answers in which place."""

import json
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from adapters.cli import dry_run, persona_versions
from adapters.cli.console import complain, say, show_fields, show_table
from adapters.cli.drafts import COLUMNS, read_draft, to_draft
from adapters.cli.opening import in_transaction
from shared.db.statements import load_statements
from shared.errors import Refusal

if TYPE_CHECKING:
    from shared.db.driver import Session
    from shared.settings import Settings

statements = load_statements(__file__)

app = typer.Typer(help="Which persona answers in which place.", no_args_is_help=True)
app.add_typer(persona_versions.app)
app.add_typer(dry_run.app)
NAME = typer.Argument(help="The persona's name.")


@app.command("list")
def list_personas() -> None:
    """List the personas and where they answer."""

    async def work(session: "Session", _settings: "Settings") -> list[Any]:
        return list((await session.execute(statements.read_personas)).all())

    personas, rows = in_transaction(work), []
    for persona in personas:
        place = [part for part in (persona.platform, persona.platform_server_id, persona.platform_channel_id) if part]
        answers_in = [*([" / ".join(place)] if place else []), *(["default"] if persona.is_default else [])]
        modules = "all" if persona.allowed_modules is None else ", ".join(persona.allowed_modules) or "none"
        prompt = " ".join(persona.system_prompt.split())
        excerpt = prompt if len(prompt) <= 60 else prompt[:59] + "…"
        where, skills = ", ".join(answers_in) or "nowhere yet", ", ".join(persona.skills or ())
        rows.append((persona.id, persona.name, where, modules, skills, persona.default_model, excerpt))
    show_table(
        ("id", "name", "answers in", "modules", "skills", "model", "prompt"),
        rows,
        values=[_to_values(persona) for persona in personas],
        empty="There is no persona; the built-in one answers. Make one: parley persona create NAME --prompt TEXT",
    )


@app.command("show")
def show_persona(name: str = NAME) -> None:
    """Show a persona with its whole prompt."""

    async def work(session: "Session", _settings: "Settings") -> dict[str, Any]:
        return _to_values(await _get(session, name))

    values = in_transaction(work)
    prompt = values["system_prompt"]
    fields = {
        key: (", ".join(map(str, value)) if isinstance(value, list) else str(value))
        for key, value in values.items()
        if key != "system_prompt" and value is not None
    }
    show_fields(fields | {"prompt": f"\n\n{prompt}"}, values=values)


@app.command("edit")
def edit_persona(name: str = NAME) -> None:
    """Open a persona in your editor, and store it if it is right; wrong values are said and open again."""

    async def read(session: "Session", _settings: "Settings") -> dict[str, Any]:
        return _to_values(await _get(session, name))

    async def store(session: "Session", _settings: "Settings") -> None:
        persona = await _get(session, name)
        await _store_values(session, persona.id, new_values)

    values = in_transaction(read)
    before = draft = to_draft(values)
    while True:
        # Imported here: only this command opens an editor.
        import click

        new_draft = click.edit(draft, extension=".md")
        if new_draft is None or new_draft == before:
            say(f"{name} is as it was")
            return
        draft = new_draft
        try:
            new_values = read_draft(draft, values)
            in_transaction(store)
        except Refusal as error:
            if not sys.stdin.isatty():
                raise
            complain(str(error))
            if not typer.confirm("Edit again?", default=True):
                raise typer.Exit(1) from None
        else:
            say(f"{name} is stored; it counts from the next message on")
            return


@app.command("delete")
def delete_persona(
    name: str = NAME, yes: bool = typer.Option(False, "--yes", help="Really delete; without it, say what would happen.")
) -> None:
    """Delete a persona; the next closer one answers in its places. `parley audit undo` brings it back."""

    async def work(session: "Session", _settings: "Settings") -> int:
        persona = await _get(session, name)
        turns = (await session.execute(statements.count_turns_of_persona, {"id": persona.id})).scalar_one()
        if yes:
            await session.execute(statements.delete_persona, {"name": name})
        return int(turns)

    turns = in_transaction(work)
    if not yes:
        raise Refusal(f"{name} has answered in {turns:,} turns, which stay, without its name. Add --yes to delete it.")
    say(f"{name} is deleted")


@app.command("create")
def create_persona(
    name: str = typer.Argument(help="A name for people, unique."),
    prompt: str | None = typer.Option(None, help="The instructions."),
    prompt_file: Path | None = typer.Option(
        None, exists=True, dir_okay=False, allow_dash=True, help="Read them from a file (- is stdin)."
    ),
    platform: str | None = typer.Option(None, help="Only on this platform: discord, slack, web, terminal, …"),
    server: str | None = typer.Option(None, help="Only on this server or workspace (its id)."),
    channel: str | None = typer.Option(None, help="Only in this channel (its id)."),
    modules: str | None = typer.Option(
        None, help="Modules allowed here, comma-separated; none given: all that the permission allows."
    ),
    skills: str | None = typer.Option(None, help="Skills that the model may load here, comma-separated."),
    model: str | None = typer.Option(None, help="litellm name of the model to try first."),
    max_tokens: int | None = typer.Option(None, min=1, help="Most output tokens of one model call."),
    max_temperature: float | None = typer.Option(
        None, min=0, max=2, help="Highest temperature that a program may ask for."
    ),
    max_iterations: int | None = typer.Option(None, min=1, max=100, help="Most waves of tool calls."),
    allow_mentions: bool = typer.Option(False, "--allow-mentions", help="Replies may mention people."),
    default: bool = typer.Option(False, "--default", help="Answer wherever no closer persona does."),
) -> None:
    """Make a persona. It counts from the next message on."""
    values: dict[str, Any] = {
        "name": name.strip(),
        "system_prompt": _prompt(prompt, prompt_file),
        "platform": platform,
        "platform_server_id": server,
        "platform_channel_id": channel,
        "allowed_modules": _split(modules),
        "skills": _split(skills),
        "default_model": model,
        "max_tokens_per_request": max_tokens,
        "max_temperature": max_temperature,
        "max_iterations": max_iterations,
        "allow_mentions": allow_mentions,
    }

    async def work(session: "Session", _settings: "Settings") -> int:
        persona_id = await _store_values(session, None, values)
        if default:
            await _set_default(session, values["name"])
        return persona_id

    say(f"persona {in_transaction(work)}: {values['name']}")


@app.command("set-default")
def set_default(name: str = typer.Argument(help="The persona's name, or `none` for the built-in one.")) -> None:
    """Choose the persona that answers wherever no closer one does."""

    async def work(session: "Session", _settings: "Settings") -> None:
        await _set_default(session, None if name == "none" else name)

    in_transaction(work)
    say("the built-in persona is the default" if name == "none" else f"{name} is the default")


async def _get(session: "Session", name: str) -> Any:
    """Return the row of a persona; raises `Refusal` when there is none of this name."""
    rows = (await session.execute(statements.read_personas)).all()
    if (row := next((persona for persona in rows if persona.name == name), None)) is not None:
        return row
    nearest = get_close_matches(name, [persona.name for persona in rows], n=1)
    hint = f" Did you mean {nearest[0]}?" if nearest else ""
    raise Refusal(f"There is no persona {name!r}; `parley persona list` shows them.{hint}")


async def _store_values(session: "Session", persona_id: int | None, values: dict[str, Any]) -> int:
    parameters = {"id": persona_id, "values": json.dumps(values)}
    return int((await session.execute(statements.store_persona, parameters)).scalar_one())


async def _set_default(session: "Session", name: str | None) -> None:
    if name is not None:
        await _get(session, name)
    await session.execute(statements.set_default_persona, {"name": name})


def _prompt(prompt: str | None, prompt_file: Path | None) -> str:
    if (prompt is None) == (prompt_file is None):
        raise typer.BadParameter("Give the instructions by --prompt TEXT or by --prompt-file FILE.")
    if prompt_file is None:
        text = prompt or ""
    elif str(prompt_file) == "-":
        text = typer.get_text_stream("stdin").read()
    else:
        text = prompt_file.read_text(encoding="utf-8", errors="replace")
    if not text.strip():
        raise typer.BadParameter("The instructions are empty.")
    return text.strip()


def _split(names: str | None) -> list[str] | None:
    return None if names is None else [part.strip() for part in names.split(",") if part.strip()]


def _to_values(persona: Any) -> dict[str, Any]:
    return {name: getattr(persona, name) for name in COLUMNS}
