"""`parley budget list|check|reconcile`: limits on what may be spent, and whether they agree with the ledger."""

from decimal import Decimal
from typing import Any

import typer

from adapters.cli.console import say, show_table
from adapters.cli.opening import list_rows
from shared.db.statements import load_statements

statements = load_statements(__file__)

app = typer.Typer()


@app.command("list")
def list_limits() -> None:
    """Show every limit: what is used, reserved and left, and when it begins again."""
    rows = list_rows(statements.list_limits)
    if not rows:
        say("There are no limits.")
        return
    columns = ("limit", "period", "unit", "allowed", "granted", "used", "reserved", "left", "begins again")
    show_table(
        columns,
        [
            (
                f"{row.kind} {row.name}".strip(),
                row.period,
                row.unit,
                *(_to_figure(figure) for figure in (row.allowed, row.granted, row.used, row.reserved, row.left)),
                f"{row.resets_at:%Y-%m-%d %H:%M}",
            )
            for row in rows
        ],
    )


@app.command("check")
def check() -> None:
    """Compare what limits have counted with the ledger; ends with 1 when they differ."""
    rows = list_rows(statements.list_differences)
    if rows:
        _show_differences(rows)
        raise typer.Exit(1)
    say("What limits have counted is the sum of the ledger.")


@app.command("reconcile")
def reconcile() -> None:
    """Set what limits have counted to what the ledger says, and show what was changed."""
    rows = list_rows(statements.reconcile)
    if rows:
        _show_differences(rows)
    say(f"{len(rows)} counters were set to the sum of the ledger." if rows else "Nothing had to be changed.")


def _to_figure(value: Decimal | None) -> Decimal | None:
    # Without the zeros of the column's type, and never as 0E-8.
    return None if value is None else Decimal(f"{value.normalize():f}")


def _show_differences(rows: list[Any]) -> None:
    columns = ("table", "id", "counter", "counted", "ledger")
    table_rows = [(row.subject, row.id, row.counter, f"{row.counted:f}", f"{row.ledger:f}") for row in rows]
    show_table(columns, table_rows)
