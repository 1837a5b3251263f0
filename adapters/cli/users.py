"""`parley user …`: people with their permission, budget and accounts."""

import asyncio
from contextlib import aclosing
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import typer

from adapters.cli.console import progress, say, show_fields, show_json, show_table
from adapters.cli.opening import find_database, in_transaction, opened_connection
from shared.db.statements import load_statements
from shared.errors import Refusal
from shared.messages import Permission

if TYPE_CHECKING:
    from sqlalchemy import TextClause

    from shared.db.driver import Session
    from shared.settings import Settings

statements = load_statements(__file__)

app = typer.Typer(help="People, with permission, budget and accounts.", no_args_is_help=True)
WHO = typer.Argument(
    metavar="WHO", help="A user's number (12), an account (discord:80351110224678912) or an account's name."
)
NEW = typer.Option(False, "--new", help="Make the user when this account has never written.")


@app.command("list")
def list_users(limit: int = typer.Option(50, min=1, max=10_000, help="At most so many, the newest first.")) -> None:
    """List people with permission, budget and accounts."""

    async def work(session: "Session", _settings: "Settings") -> list[Any]:
        return await _read(session, None, limit=limit)

    users = in_transaction(work)
    rows = [
        (user.id, user.name, user.permission_level, to_spent(user), f"{user.budget_reset_at:%Y-%m-%d}", user.accounts)
        for user in users
    ]
    columns = ("id", "name", "permission", "tokens", "renews", "accounts")
    show_table(columns, rows, values=[dict(user) for user in users])


@app.command("show")
def show_user(who: str = WHO) -> None:
    """Show one person."""

    async def work(session: "Session", _settings: "Settings") -> Any:
        return await read_user(session, await find_user(session, who))

    user = in_transaction(work)
    reservation = f" ({user.reserved:,} held by running requests)" if user.reserved else ""
    fields = {
        "user": user.id,
        "name": user.name or "(none)",
        "permission": user.permission_level,
        "tokens": f"{to_spent(user)}{reservation}; renews {user.budget_reset_at:%Y-%m-%d}",
        "time zone": user.time_zone,
        "accounts": user.accounts or "(none)",
    }
    show_fields(fields, values=dict(user))


@app.command("promote")
def promote(
    who: str = WHO,
    level: str = typer.Argument(metavar="guest|user|admin|owner", help="The permission."),
    new: bool = NEW,
) -> None:
    """Set a person's permission; admins and owners have no budget limit. Counts from the next message on."""
    permission = to_permission(level)

    async def work(session: "Session", _settings: "Settings") -> str:
        user_id = await find_user(session, who, is_new=new)
        return await set_permission(session, user_id, permission)

    say(in_transaction(work))


@app.command("set-budget")
def set_budget(
    who: str = WHO, tokens: str = typer.Argument(metavar="TOKENS|unlimited", help="Per 30 days."), new: bool = NEW
) -> None:
    """Set what a person may spend in 30 days. Counts from the next message on."""
    budget = to_budget(tokens)

    async def work(session: "Session", _settings: "Settings") -> int:
        user_id = await find_user(session, who, is_new=new)
        await session.execute(statements.set_budget, {"user_id": user_id, "budget": budget})
        return user_id

    user_id = in_transaction(work)
    say(f"user {user_id}: {'unlimited' if budget is None else f'{budget:,} tokens in 30 days'}")


@app.command("pause")
def pause(who: str = WHO) -> None:
    """Answer this person with one sentence only, until `resume`; nothing of theirs is lost."""
    say(call_admin(statements.pause_user, who))


@app.command("resume")
def resume(who: str = WHO) -> None:
    """Answer a paused person again."""
    say(call_admin(statements.resume_user, who))


@app.command("link")
def link(
    who: str = WHO,
    account: str = typer.Argument(metavar="PLATFORM:ID", help="The account, for instance slack:U024BE7LH."),
    move: bool = typer.Option(False, "--move", help="Take the account away from another user who has it."),
) -> None:
    """Make an account on a platform one more identity of a person."""
    platform, account_id = _account(account)

    async def work(session: "Session", _settings: "Settings") -> int:
        user_id = await find_user(session, who)
        parameters = {"user_id": user_id, "platform": platform, "account": account_id, "move": move}
        owner = (await session.execute(statements.link_account, parameters)).scalar_one()
        if owner != user_id:
            raise Refusal(f"{platform}:{account_id} belongs to user {owner}; --move takes it from there.")
        return user_id

    say(f"user {in_transaction(work)}: {platform}:{account_id} is linked")


@app.command("export")
def export(who: str = WHO) -> None:
    """Print everything that is kept about a person, as JSON."""

    async def work(session: "Session", settings: "Settings") -> Any:
        from agent.personal_data.export import export_person
        from shared.files.stored_file import FileLinks, to_base_url
        from shared.settings import load_secrets

        links = FileLinks(to_base_url(settings), load_secrets(settings).secret_keys)
        return await export_person(session, links, await find_user(session, who))

    show_json(in_transaction(work))


@app.command("erase")
def erase(
    who: str = WHO,
    yes: bool = typer.Option(False, "--yes", help="Really erase; without it, only say what would happen."),
) -> None:
    """Erase a person with everything that is kept about them, and print a signed receipt."""

    async def work(session: "Session", settings: "Settings") -> "tuple[int | None, Settings]":
        from agent.personal_data.erasure import find_erasure, request_erasure

        erasure = await find_erasure(session, int(who)) if who.isdecimal() and len(who) <= 18 else None
        if erasure is not None:
            # An erasure that was interrupted, or a receipt that is wanted again.
            return erasure, settings
        user_id = await find_user(session, who)
        return (await request_erasure(session, user_id) if yes else None), settings

    erasure_id, settings = in_transaction(work)
    if erasure_id is None:
        raise Refusal("This can't be undone: rows, memories, messages and files of this person go. Add --yes.")

    async def erase_all() -> str:
        from agent.personal_data.erasure import erase as erase_person
        from shared.files.stores import open_store
        from shared.settings import load_secrets

        async with (
            opened_connection(settings, find_database(settings)) as database,
            aclosing(open_store(settings)) as store,
        ):
            erasure = await erase_person(database, store, erasure_id)
        return erasure.to_receipt(load_secrets(settings))

    with progress("erasing rows, memories, messages and files"):
        receipt = asyncio.run(erase_all())
    say(receipt)


async def _read(session: "Session", user_id: int | None, limit: int) -> list[Any]:
    return list((await session.execute(statements.list_users, {"id": user_id, "limit": limit})).all())


async def find_user(session: "Session", who: str, *, is_new: bool = False) -> int:
    """Return the user's id; with `is_new`, an unknown account gets a new user. Raises `Refusal`."""
    if who.isdecimal():
        if len(who) > 18 or (await session.execute(statements.find_user, {"id": int(who)})).one_or_none() is None:
            raise Refusal(f"There is no user {who}; `parley user list` shows them.")
        return int(who)
    if ":" in who:
        platform, account = _account(who)
        if is_new:
            # Imported here: it brings half of the agent, and few commands make a user.
            from agent.people.participants import resolve_user
            from shared.messages import Sender

            return (await resolve_user(session, Sender(platform, account))).id
        row = (
            await session.execute(statements.find_owner_of, {"platform": platform, "account": account})
        ).one_or_none()
        if row is None:
            raise Refusal(
                f"Nobody has written from {who} yet; with --new the user is made now where the command allows it."
            )
        return int(row.user_id)
    ids = [row.id for row in (await session.execute(statements.find_named, {"name": who})).all()]
    if len(ids) > 1:
        raise Refusal(f"Several users are called {who}: {', '.join(map(str, ids))}; say which by number.")
    if not ids:
        names = [row[0] for row in (await session.execute(statements.list_names)).all()]
        nearest = get_close_matches(who, names, n=1)
        hint = f" (the nearest name is {nearest[0]})" if nearest else ""
        raise Refusal(f"There is no user called {who}{hint}; `parley user list` shows them.")
    return int(ids[0])


def call_admin(statement: "TextClause", who: str, *, new: bool = False, **arguments: object) -> str:
    """Call a function of the schema `admin` for one of a person's accounts, and return its sentence."""

    async def work(session: "Session", _settings: "Settings") -> str:
        user_id = await find_user(session, who, is_new=new)
        link = (await session.execute(statements.find_account, {"id": user_id})).one()
        parameters = {"platform": link.platform, "account": link.platform_user_id, **arguments}
        return str((await session.execute(statement, parameters)).scalar_one())

    return in_transaction(work)


async def read_user(session: "Session", user_id: int) -> Any:
    """Return a person's row of the list."""
    return (await _read(session, user_id, limit=1))[0]


async def set_permission(session: "Session", user_id: int, permission: Permission) -> str:
    """Give a person this permission for ever; return a sentence."""
    parameters = {"user_id": user_id, "permission": permission.label}
    await session.execute(statements.set_permission, parameters)
    user = await read_user(session, user_id)
    limit = "unlimited budget" if user.budget is None else f"{user.budget:,} tokens in 30 days"
    return f"user {user_id} ({user.name or user.accounts}): {permission.label}, {limit}"


def to_spent(user: Any) -> str:
    """Return what a person has used of their budget, as text."""
    limit = "unlimited" if user.budget is None else f"{user.budget:,}"
    return f"{user.used:,} of {limit}"


def _account(account: str) -> tuple[str, str]:
    platform, colon, account_id = account.partition(":")
    if not (platform and colon and account_id):
        raise typer.BadParameter(
            f"{account!r} is no account; write PLATFORM:ID, for instance discord:80351110224678912."
        )
    return platform.lower(), account_id


def to_permission(level: str) -> Permission:
    """Return the permission of this name."""
    try:
        return Permission.from_label(level)
    except KeyError:
        raise typer.BadParameter(f"{level!r} is no permission; write guest, user, admin or owner.") from None


def to_budget(tokens: str) -> int | None:
    """Return a budget as it was typed; None is unlimited."""
    if tokens.lower() == "unlimited":
        return None
    plain = tokens.replace(",", "").replace("_", "")
    if not plain.isdecimal() or len(plain) > 15:
        raise typer.BadParameter(f"{tokens!r} is no budget; write a whole number of tokens, or unlimited.")
    return int(plain)
