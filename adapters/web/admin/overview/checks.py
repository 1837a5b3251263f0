"""What `parley doctor` finds."""

import asyncio
import json
from asyncio.subprocess import DEVNULL
from dataclasses import dataclass

from adapters.web.admin.command import SECONDS, run_command
from shared.errors import Refusal
from shared.settings import Settings

_running = asyncio.Lock()


@dataclass(frozen=True, slots=True)
class Check:
    """A line of `parley doctor`; its level is ok, off, warn or fail."""

    level: str
    subject: str
    text: str


async def check_everything(settings: Settings) -> list[Check]:
    """Return what the command finds in this database and folder, all else as the environment says; raises `Refusal`."""
    if _running.locked():
        raise Refusal("The checks are running already; try again in a minute.")
    async with _running:
        try:
            _, output = await run_command(settings, "doctor", "--json", errors=DEVNULL)
        except TimeoutError:
            raise Refusal(
                f"The checks took more than {SECONDS:.0f} seconds; run parley doctor on the machine."
            ) from None
    try:
        return [Check(line["level"], line["subject"], line["text"]) for line in json.loads(output)]
    except (ValueError, KeyError, TypeError):
        raise Refusal("The checks could not be started; parley doctor on the machine says why.") from None
