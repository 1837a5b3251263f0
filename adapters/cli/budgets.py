"""`parley budget …`: what people may spend."""

from typing import Any

import typer

from adapters.cli import limits
from adapters.cli.console import say, show_fields, show_table
from adapters.cli.opening import in_transaction
from adapters.cli.users import WHO, call_admin, find_user, to_budget
from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.settings import Settings

statements = load_statements(__file__)

app = typer.Typer(help="What people may spend.", no_args_is_help=True)
app.add_typer(limits.app)

COLUMNS = ("name", "budget", "used", "reserved", "renews_at")


@app.command("show")
def show_budgets(
    who: str | None = typer.Argument(None, metavar="[WHO]", help="A person, as `parley user show` takes it."),
    limit: int = typer.Option(50, min=1, max=10_000, help="At most so many, who spent most first."),
) -> None:
    """Show what people may spend in 30 days and what they have spent, as the program computes it."""

    async def work(session: Session, _settings: Settings) -> list[Any]:
        user_id = None if who is None else await find_user(session, who)
        return list((await session.execute(statements.list_budgets, {"id": user_id, "limit": limit})).all())

    rows = in_transaction(work)
    if who is not None:
        show_fields({name: _to_text(getattr(rows[0], name)) for name in COLUMNS}, values=dict(rows[0]))
        return
    table_rows = [(row.id, *(_to_text(getattr(row, name)) for name in COLUMNS)) for row in rows]
    show_table(("id", *COLUMNS), table_rows, values=[dict(row) for row in rows], empty="Nobody has written yet.")


@app.command("set")
def set_budget(who: str = WHO, tokens: str = typer.Argument(metavar="TOKENS|unlimited", help="Per 30 days.")) -> None:
    """Set what a person may spend in 30 days, as admin.set_budget does. Counts from the next message on."""
    say(call_admin(statements.set_budget_of_account, who, tokens=to_budget(tokens)))


def _to_text(value: object) -> str:
    if value is None:
        return "unlimited"
    return f"{value:%Y-%m-%d}" if hasattr(value, "strftime") else f"{value:,}" if isinstance(value, int) else str(value)
