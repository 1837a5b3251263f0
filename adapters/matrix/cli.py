"""`parley matrix …`: the access token of the agent's account."""

import asyncio

import typer

from adapters.cli.console import complain, say
from adapters.matrix.client import Client
from shared.errors import ParleyError

app = typer.Typer(help="The Matrix account: login.", no_args_is_help=True)


@app.callback()
def main() -> None:
    """Keep `login` a word of its own: a typer app with one command has no subcommands."""


@app.command("login")
def log_in(
    homeserver: str = typer.Option(..., prompt="Address of the homeserver", help="As https://matrix.example.org."),
    user: str = typer.Option(..., prompt="Account", help="As @parley:example.org."),
    password: str = typer.Option(..., prompt="Password", hide_input=True, help="Asked for; it is kept nowhere."),
) -> None:
    """Print the lines of .env for an account, with a new token."""
    try:
        say(asyncio.run(make_token(homeserver, user, password)))
    except ParleyError as error:
        complain(str(error))
        raise typer.Exit(1) from None


async def make_token(homeserver: str, user: str, password: str) -> str:
    """Return the settings with a new token for this account."""
    client = Client(homeserver)
    identifier = {"type": "m.id.user", "user": user}
    body = {"type": "m.login.password", "identifier": identifier, "password": password}
    try:
        answer = await client.call("POST", ("login",), body | {"initial_device_display_name": "Parley"})
    finally:
        await client.aclose()
    return "\n".join(
        (
            f"MATRIX_HOMESERVER={homeserver}",
            f"MATRIX_USER={answer['user_id']}",
            f"MATRIX_TOKEN={answer['access_token']}",
        )
    )
