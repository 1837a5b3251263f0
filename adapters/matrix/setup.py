"""What `parley setup` asks for Matrix."""

import re
from collections.abc import Mapping
from contextlib import aclosing

from adapters.matrix.client import Client
from adapters.matrix.settings import MatrixSettings
from shared.errors import Undeliverable

TITLE = "Matrix"
QUESTIONS: Mapping[str, str] = {
    "MATRIX_HOMESERVER": "the address of the homeserver, https://…",
    "MATRIX_USER": "the account, as @parley:example.org",
    "MATRIX_TOKEN": "its access token; Enter if you know the password instead",
    "MATRIX_PASSWORD": "its password, which is kept nowhere",
}
INSTEAD: Mapping[str, str] = {"MATRIX_PASSWORD": "MATRIX_TOKEN"}
OWNER = "Who is its owner there? The whole account, which clients show below your name."
OWNER_ID, EXAMPLE_ID = re.compile(r"@[^\s:]+:\S+"), "@ann:example.org"
# What a header can hold.
TOKEN = re.compile(r"[!-~]+")
INTRODUCTION = "Matrix: register an account for the agent at a homeserver, with any client."


async def exchange(values: Mapping[str, str]) -> dict[str, str]:
    """Return the answers with a new token, where there is a password instead of one."""
    if "MATRIX_PASSWORD" not in values:
        return {**values}
    user = {"type": "m.id.user", "user": values.get("MATRIX_USER", "")}
    body = {"type": "m.login.password", "identifier": user, "password": values["MATRIX_PASSWORD"]}
    async with aclosing(Client(MatrixSettings(values.get("MATRIX_HOMESERVER")))) as client:
        answer = await client.call("POST", ("login",), body | {"initial_device_display_name": "Parley"})
    account, token = str(answer.get("user_id")), str(answer.get("access_token"))
    if not (OWNER_ID.fullmatch(account) and TOKEN.fullmatch(token)):
        raise Undeliverable("What answers at MATRIX_HOMESERVER is no homeserver.")
    return {**values, "MATRIX_USER": account, "MATRIX_TOKEN": token}
