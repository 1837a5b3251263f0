"""The command `/credential`, with which people enter credentials for tools; adapters with forms ask for the value."""

import re
from typing import Annotated

from agent.app import App
from agent.commands.base import Command, Request
from agent.commands.signature import HIDDEN, Text
from agent.people.participants import resolve_user
from agent.prompts import prompts
from shared.credentials.people import NAME, check_name
from shared.errors import Refusal
from shared.messages import Sender
from shared.text import to_command_line

USAGE = "Write /credential set, list or forget; set and forget need a name, such as pms."
FORM = re.compile(rf"(?i:/credential\s+set)\s+({NAME.pattern})\s*")


credential = Command(
    "credential",
    "Enter a password or key that I use for you elsewhere, list the names of yours, or forget one.",
    hint=USAGE,
)


@credential.subcommand("set")
async def set_credential(request: Request, name: str, value: Annotated[Text, HIDDEN] = "") -> str:
    """Enter a password or key that I use for you elsewhere."""
    if not value:
        return f"Write /credential set {check_name(name)} and the credential behind it, where nobody else reads."
    if not request.place.is_direct:
        raise Refusal(prompts().turn.credential_typed)
    await request.app.credentials.of_user(request.user.id).keep(name, value)
    return f"{_kept(name)} Please delete your message with it."


@credential.subcommand("list", is_default=True)
async def list_credentials(request: Request) -> str:
    """List the names of your credentials."""
    own = await request.app.credentials.of_user(request.user.id).list()
    names = [f"{credential.name} (since {credential.created_at:%d %B %Y})" for credential in own]
    return f"Your credentials here: {', '.join(names)}." if names else f"You have no credentials here. {USAGE}"


@credential.subcommand("forget")
async def forget_credential(request: Request, name: str) -> str:
    """Forget one of your credentials."""
    is_gone = await request.app.credentials.of_user(request.user.id).forget(name)
    return f"I have forgotten {name}." if is_gone else f"You have no credential {name} here."


def find_credential_form(line: str) -> str | None:
    """Return the name of the credential for which this command wants a form; None for every other line."""
    match = FORM.fullmatch(to_command_line(line) or "")
    return None if match is None else match[1]


async def keep_credential(app: App, sender: Sender, name: str, value: str) -> str:
    """Keep what a person has entered in a form, and return the reply; raises `Refusal` for what can't be kept."""
    check_name(name)
    async with app.database.transaction() as session:
        user = await resolve_user(session, sender)
    await app.credentials.of_user(user.id).keep(name, value)
    return _kept(name)


def _kept(name: str) -> str:
    return f"I keep your credential {name} encrypted, and use it for you alone."
