"""`parley persona history|diff|rollback`: what a persona was, and how it becomes that again."""

from typing import TYPE_CHECKING, Any

import typer

from adapters.cli.console import say, show_table
from adapters.cli.opening import in_transaction
from agent.people.persona_versions import describe_change, list_differences
from shared.db.statements import load_statements
from shared.errors import Refusal

if TYPE_CHECKING:
    from shared.db.driver import Session
    from shared.settings import Settings

statements = load_statements(__file__)

app = typer.Typer()
NAME = typer.Argument(help="The persona's name, also that of a deleted one.")


@app.command("history")
def show_history(name: str = NAME) -> None:
    """List the versions of a persona: when, by whom, what has changed, and how many turns each has answered."""
    versions = _list_versions(name)
    before: list[Any] = [None, *versions]
    rows = []
    for version, earlier in zip(versions, before, strict=False):
        change = describe_change(version, earlier)
        rows.append((version.version, version.at, version.who, change, version.turns))
    show_table(("version", "at", "who", "what", "turns"), rows[::-1], values=[dict(version) for version in versions])


@app.command("diff")
def show_difference(
    name: str = NAME,
    old: int | None = typer.Argument(None, min=1, help="A version; none given: the one before the last."),
    new: int | None = typer.Argument(None, min=1, help="Another version; none given: the last one."),
) -> None:
    """Show what differs between two versions of a persona, line by line."""
    versions = {version.version: version for version in _list_versions(name)}
    last = max(versions)
    one, other = _pick(versions, old or max(1, last - 1)), _pick(versions, new or last)
    lines = list_differences(one, other)
    for line in lines:
        color = {"+": typer.colors.GREEN, "-": typer.colors.RED}.get(line[:1])
        typer.secho(line, fg=color)
    if not lines:
        say(f"versions {one.version} and {other.version} are the same")


@app.command("rollback")
def roll_back(
    name: str = NAME, version: int = typer.Argument(min=1, help="The version, as `parley persona history` shows it.")
) -> None:
    """Make a persona what it was in a version; it counts from the next message on, and is a new version itself."""

    async def work(session: "Session", _settings: "Settings") -> str:
        parameters = {"name": name, "version": version}
        return str((await session.execute(statements.roll_back, parameters)).scalar_one())

    say(in_transaction(work))


def _list_versions(name: str) -> list[Any]:
    async def work(session: "Session", _settings: "Settings") -> list[Any]:
        return list((await session.execute(statements.list_versions, {"name": name})).all())

    return in_transaction(work)


def _pick(versions: dict[int, Any], number: int) -> Any:
    if number not in versions:
        raise Refusal(f"There is no version {number}; there are 1 to {max(versions)}.")
    return versions[number]
