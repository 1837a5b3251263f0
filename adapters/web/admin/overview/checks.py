"""What `parley doctor` finds, in a process of its own: its libraries would stay in this one for ever."""

import asyncio
import json
import sys
from dataclasses import dataclass

from shared.errors import Refusal
from shared.processes.ending import kill
from shared.settings import Settings, list_variables

# Keys and platforms are asked over the network, and a silent one takes its time.
SECONDS = 90.0
COMMAND = (sys.executable, "-m", "adapters.cli", "doctor", "--json")
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
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            env=list_variables(settings),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(SECONDS):
                output, _ = await process.communicate()
        except TimeoutError:
            raise Refusal(
                f"The checks took more than {SECONDS:.0f} seconds; run parley doctor on the machine."
            ) from None
        finally:
            await kill(process)
    try:
        return [Check(line["level"], line["subject"], line["text"]) for line in json.loads(output)]
    except (ValueError, KeyError, TypeError):
        raise Refusal("The checks could not be started; parley doctor on the machine says why.") from None
