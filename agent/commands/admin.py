"""The command `/admin`, whose forms platforms show that have forms; and which commands open one."""

import re
from typing import Literal, get_args

from agent.commands.base import Request, command
from shared.messages import Permission

Act = Literal["pause", "limit", "grant", "mode", "persona", "undo"]
# The forms that these commands open when nothing stands behind them.
REQUESTS = {"grant": "approve", "refuse": "refuse"}
OPENS_FORM = re.compile(r"\s*/(admin|grant|refuse)(?:\s+([a-z]+))?\s*", re.IGNORECASE)

MENU = ""


@command("admin", requires=Permission.ADMIN)
async def explain_forms(request: Request, act: Act | None = None) -> str:
    """Open a form: pause, a limit, a grant, where a channel is answered, who answers there, or undo."""
    url = request.app.settings.public_url
    where = f"{url.rstrip('/')}/admin" if url else "/admin of the web page"
    return (
        "A message can't open a form: choose admin in the menu of commands, if there is one here. "
        f"All of it is at {where} as well, and `parley psql` does it with SQL."
    )


def find_form(line: str) -> str | None:
    """Return the name of the form that this command opens, `MENU` for the list of them; None for every other line."""
    match = OPENS_FORM.fullmatch(line)
    if match is None:
        return None
    name, act = match[1].lower(), (match[2] or "").lower()
    if name == "admin":
        return act if act in (MENU, *get_args(Act)) else None
    return None if act else REQUESTS[name]
