"""The command `/credential`, with which people enter credentials for tools; adapters with forms ask for the value."""

import re

from agent.app import App
from agent.commands.base import Request, command
from agent.people.participants import resolve_user
from agent.prompts import prompts
from shared.credentials.people import NAME, CredentialsOfUser, check_name
from shared.errors import Refusal
from shared.messages import Sender

USAGE = "Write /credential set, list or forget; set and forget need a name, such as pms."
FORM = re.compile(rf"\s*(?i:/credential\s+set)\s+({NAME.pattern})\s*")


@command("/credential set NAME|list|forget NAME")
async def credential(request: Request) -> str:
    """Enter a password or key that I use for you elsewhere, list the names of yours, or forget one."""
    own = request.app.credentials.of_user(request.user.id)
    verb, name, value = [*(request.argument or "list").split(None, 2), "", ""][:3]
    match verb.lower(), name, value:
        case "list", "", "":
            return await _list(own)
        case "forget", name, "" if name:
            is_gone = await own.forget(name)
            return f"I have forgotten {name}." if is_gone else f"You have no credential {name} here."
        case "set", name, "" if name:
            return f"Write /credential set {check_name(name)} and the credential behind it, where nobody else reads."
        case "set", name, value if name and request.place.is_direct:
            await own.keep(name, value)
            return f"{_kept(name)} Please delete your message with it."
        case "set", name, _ if name:
            raise Refusal(prompts().turn.credential_typed)
    raise Refusal(USAGE)


def find_credential_form(line: str) -> str | None:
    """Return the name of the credential for which this command wants a form; None for every other line."""
    match = FORM.fullmatch(line)
    return None if match is None else match[1]


async def keep_credential(app: App, sender: Sender, name: str, value: str) -> str:
    """Keep what a person has entered in a form, and return the reply; raises `Refusal` for what can't be kept."""
    check_name(name)
    async with app.database.transaction() as session:
        user = await resolve_user(session, sender)
    await app.credentials.of_user(user.id).keep(name, value)
    return _kept(name)


async def _list(own: CredentialsOfUser) -> str:
    names = [f"{credential.name} (since {credential.created_at:%d %B %Y})" for credential in await own.list()]
    return f"Your credentials here: {', '.join(names)}." if names else f"You have no credentials here. {USAGE}"


def _kept(name: str) -> str:
    return f"I keep your credential {name} encrypted, and use it for you alone."
