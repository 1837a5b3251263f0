"""`parley grant …`: who may more than a guest."""

from datetime import UTC, datetime, timedelta
from typing import Any

import typer

from adapters.cli.console import say, show_table
from adapters.cli.opening import in_transaction
from adapters.cli.users import NEW, WHO, call_admin, find_user, set_permission, to_permission
from shared.clock import SystemClock
from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.messages import Permission
from shared.settings import Settings

statements = load_statements(__file__)

app = typer.Typer(help="Who may more than a guest.", no_args_is_help=True)


@app.command("list")
def list_grants() -> None:
    """List the people who may more than a guest, and the roles of servers that give more."""

    async def work(session: Session, _settings: Settings) -> list[Any]:
        return list((await session.execute(statements.list_grants)).all())

    rows = in_transaction(work)
    show_table(("who", "by", "permission", "server", "budget"), rows, empty="Nobody may more than a guest.")


@app.command("add")
def add_grant(
    who: str = WHO,
    level: str = typer.Argument(metavar="user|admin|owner", help="The permission."),
    until: str | None = typer.Option(None, metavar="DATE|DAYSd", help="When it ends: 2027-01-31, or 7d from now."),
    new: bool = NEW,
) -> None:
    """Give a person a permission, with the budget that belongs to it. Counts from the next message on."""
    permission = to_permission(level)
    if until is not None:
        say(call_admin(statements.grant_permission, who, new=new, level=permission.label, until=to_end(until)))
        return

    async def work(session: Session, _settings: Settings) -> str:
        return await set_permission(session, await find_user(session, who, is_new=new), permission)

    say(in_transaction(work))


@app.command("remove")
def remove_grant(who: str = WHO) -> None:
    """Make a person a guest again, with a guest's budget if it was unlimited."""

    async def work(session: Session, _settings: Settings) -> str:
        return await set_permission(session, await find_user(session, who), Permission.GUEST)

    say(in_transaction(work))


def to_end(until: str) -> datetime:
    """Return the time that `2027-01-31`, `2027-01-31 18:00` (UTC) or `7d` means."""
    if until.endswith("d") and until[:-1].isdecimal() and len(until) <= 6:
        return SystemClock().now() + timedelta(days=int(until[:-1]))
    try:
        end = datetime.fromisoformat(until)
    except ValueError:
        raise typer.BadParameter(f"{until!r} is no end; write a date such as 2027-01-31, or 7d for days.") from None
    return end if end.tzinfo else end.replace(tzinfo=UTC)
