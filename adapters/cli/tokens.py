"""`parley token …`: tokens by which people's own programs use the API."""

import typer

from adapters.cli.console import say, show_table
from adapters.cli.grants import to_end
from adapters.cli.opening import list_rows
from adapters.cli.users import NEW, WHO, call_admin
from shared.db.statements import load_statements

statements = load_statements(__file__)

app = typer.Typer(help="Tokens for the API that speak for one person.", no_args_is_help=True)


@app.command("create")
def create_token(
    who: str = WHO,
    scopes: str = typer.Option("chat,read", help="What it may: chat, read, or both."),
    expires: str | None = typer.Option(None, metavar="DATE|DAYSd", help="When it ends: 2027-01-31, or 90d from now."),
    name: str = typer.Option("", help="What it is for."),
    new: bool = NEW,
) -> None:
    """Make a token that speaks for this person alone, and print it: it is shown this once."""
    end = None if expires is None else to_end(expires)
    say(call_admin(statements.create_token, who, new=new, scopes=scopes, expires=end, name=name))


@app.command("list")
def list_tokens() -> None:
    """List the tokens, and when each was used last."""
    rows = list_rows(statements.list_tokens)
    times = [
        [f"{time:%Y-%m-%d %H:%M}" if time else "" for time in (row.expires_at, row.last_used_at, row.revoked_at)]
        for row in rows
    ]
    table = [(row.id, row.person, row.name, ",".join(row.scopes), *more) for row, more in zip(rows, times, strict=True)]
    columns = ("id", "person", "name", "scopes", "expires", "last used", "revoked")
    show_table(columns, table, values=[dict(row) for row in rows], empty="There are no tokens of persons.")


@app.command("revoke")
def revoke_token(token: int = typer.Argument(min=1, help="The number that `parley token list` shows.")) -> None:
    """End a token, at once and for ever."""
    say(list_rows(statements.revoke_token, token=token)[0].done)
