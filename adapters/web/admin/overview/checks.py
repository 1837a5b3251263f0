"""What `parley doctor` finds."""

import asyncio
import json
from asyncio.subprocess import DEVNULL

from msgspec import Struct

from adapters.web.admin.command import SECONDS, run_command
from adapters.web.texts import say
from shared.errors import Refusal
from shared.settings import Settings

_running = asyncio.Lock()


class Check(Struct, frozen=True):
    """A line of `parley doctor`; its level is ok, off, warn or fail."""

    level: str
    subject: str
    text: str


async def check_everything(settings: Settings) -> list[Check]:
    """Return what the command finds in this database and folder, all else as the environment says; raises `Refusal`."""
    if _running.locked():
        raise Refusal(say("admin.checks_are_running"))
    async with _running:
        try:
            _, output = await run_command(settings, "doctor", "--json", errors=DEVNULL)
        except TimeoutError:
            raise Refusal(say("admin.checks_took_too_long", seconds=f"{SECONDS:.0f}")) from None
    try:
        return [Check(line["level"], line["subject"], line["text"]) for line in json.loads(output)]
    except (ValueError, KeyError, TypeError):
        raise Refusal(say("admin.checks_did_not_start")) from None
