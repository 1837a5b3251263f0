"""`parley audit …`: what admins have changed, and how to take it back."""

import json
from typing import Any

import typer

from adapters.cli.console import complain, say, show_table
from adapters.cli.opening import list_rows

app = typer.Typer(help="What admins have changed: list, undo, verify.", no_args_is_help=True)

MOST_CHARS = 80
LIST = """
SELECT id, to_char(at, 'YYYY-MM-DD HH24:MI') AS at, who, action || ' ' || "table" || ' ' || row_id AS what,
       before, after, undone_by
FROM admin.audit WHERE CAST(:table AS text) IS NULL OR "table" = :table LIMIT :limit
"""


@app.command("list")
def list_entries(
    table: str | None = typer.Option(None, help="Only changes of this table: users, personas, servers, …"),
    limit: int = typer.Option(20, min=1, max=1000, help="How many, the newest first."),
) -> None:
    """Show what was changed, by whom, from what to what."""
    rows = list_rows(LIST, table=table, limit=limit)
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
    say(list_rows("SELECT admin.undo(:entry) AS done", entry=entry)[0].done)


@app.command("verify")
def verify(
    expect: str | None = typer.Option(None, help="A last hash that was noted before: is that entry still there?"),
) -> None:
    """Check that nobody has changed the log; ends with 1 when somebody has."""
    row = list_rows("SELECT * FROM parley_verify_audit()")[0]
    if row.first_broken is not None:
        complain(f"entry {row.first_broken} of audit_log was changed, or the one before it was removed")
        raise typer.Exit(1)
    statement = "SELECT id FROM audit_log WHERE encode(hash, 'hex') = :expect"
    if expect is not None and not list_rows(statement, expect=expect.lower()):
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
