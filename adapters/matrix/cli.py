"""`parley matrix …`: the access token of the agent's account."""

import asyncio
from contextlib import aclosing

import typer

from adapters.cli.console import say
from adapters.matrix.client import Client

app = typer.Typer(help="The Matrix account: login.", no_args_is_help=True)


@app.command("login")
def log_in(
    homeserver: str = typer.Option(..., prompt="Address of the homeserver", help="As https://matrix.example.org."),
    user: str = typer.Option(..., prompt="Account", help="As @parley:example.org."),
    password: str = typer.Option(..., prompt="Password", hide_input=True, help="Asked for; it is kept nowhere."),
) -> None:
    """Print the lines of .env for an account, with a new token."""
    say(asyncio.run(make_token(homeserver, user, password)))


async def make_token(homeserver: str, user: str, password: str) -> str:
    """Return the settings with a new token for this account."""
    body = {"type": "m.login.password", "identifier": {"type": "m.id.user", "user": user}, "password": password}
    async with aclosing(Client(homeserver)) as client:
        answer = await client.call("POST", ("login",), body | {"initial_device_display_name": "Parley"})
    values = {"HOMESERVER": homeserver, "USER": answer["user_id"], "TOKEN": answer["access_token"]}
    return "\n".join(f"MATRIX_{name}={value}" for name, value in values.items())
