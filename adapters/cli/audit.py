"""`parley audit …`: what admins have changed, and how to take it back."""

import json
from typing import Any

import typer

from adapters.cli.console import complain, say, show_table
from adapters.cli.opening import list_rows
from shared.db.statements import load_statements

statements = load_statements(__file__)

app = typer.Typer(help="What admins have changed: list, undo, verify.", no_args_is_help=True)

MOST_CHARS = 80


@app.command("list")
def list_entries(
    table: str | None = typer.Option(None, help="Only changes of this table: users, personas, servers, …"),
    limit: int = typer.Option(20, min=1, max=1000, help="How many, the newest first."),
) -> None:
    """Show what was changed, by whom, from what to what."""
    rows = list_rows(statements.list_changes, table=table, limit=limit)
    if not rows:
        say("Nothing has been changed yet." if table is None else f"Nothing has been changed in {table}.")
        return
    show_table(
        ("id", "at", "who", "what", "before", "after", "undone by"),
        [(row.id, row.at, row.who, row.what, _to_text(row.before), _to_text(row.after), row.undone_by) for row in rows],
    )


@app.command("undo")
def undo(entry: int = typer.Argument(min=1, help="The number that `parley audit list` shows.")) -> None:
    """Take one change back; it counts from the next message on, and can be undone itself."""
    say(list_rows(statements.undo, entry=entry)[0].done)


@app.command("verify")
def verify(
    expect: str | None = typer.Option(None, help="A last hash that was noted before: is that entry still there?"),
) -> None:
    """Check that nobody has changed the log; ends with 1 when somebody has."""
    row = list_rows(statements.verify_audit)[0]
    if row.first_broken is not None:
        complain(f"entry {row.first_broken} of audit_log was changed, or the one before it was removed")
        raise typer.Exit(1)
    if expect is not None and not list_rows(statements.find_by_hash, hash=expect.lower()):
        complain("the log ends before the entry with this hash: the newest entries were removed")
        raise typer.Exit(1)
    if not row.entries:
        say("the log is empty")
        return
    say(f"{row.entries} entries, none changed; note the last hash, which shows later whether some were cut off:")
    say(row.last_hash)


def _to_text(values: dict[str, Any] | None) -> str:
    if values is None:
        return ""
    text = ", ".join(
        f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in values.items() if value is not None
    )
    return text if len(text) <= MOST_CHARS else f"{text[: MOST_CHARS - 1]}…"
