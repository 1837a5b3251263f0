"""What adapters of chat platforms share: splitting a text, showing a live answer, staying up."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from shared.errors import ParleyError, Unavailable, Undeliverable
from shared.log import get_logger

if TYPE_CHECKING:
    from agent.app import App
    from agent.events.live import LiveTurn
    from agent.queue.outbox import Reply

# An answer that comes sooner costs one post and no more.
LIVE_AFTER = 1.0
TYPING_LASTS, SECONDS_PER_EDIT = 8.0, 1.0
FIRST_WAIT, LONGEST_WAIT = 1.0, 300.0
# Who stayed up so long has recovered from what went wrong before.
STEADY_SECONDS = 600.0

log = get_logger()


class Adapter(Protocol):
    """The code for one chat platform: it takes what people write there, and says what is to be said."""

    platform: str
    message_limit: int

    async def listen(self, app: "App") -> None:
        """Take what people write, until cancelled."""
        ...

    async def send(self, reply: "Reply") -> str | None:
        """Say it and return the platform's message id; the same reply is never said twice.

        Raises `Unavailable` to be tried again, `Undeliverable` when that would not help.
        """
        ...


class LiveMessage(Protocol):
    """A place where one answer is shown while it grows."""

    async def type(self) -> None:
        """Show that somebody is writing, for a while."""
        ...

    async def post(self, text: str) -> str:
        """Show the first of it and return the message's id."""
        ...

    async def edit(self, message_id: str, text: str) -> None:
        """Show more of it."""
        ...


async def show_live(turn: "LiveTurn", live_message: LiveMessage) -> None:
    """Show that somebody is writing, then what there is of the answer, with at most one edit a second.

    A platform that refuses ends the show, not the turn.
    """
    try:
        if await turn.ends_within(LIVE_AFTER):
            return
        await _show_growing(turn, live_message)
    except ParleyError as error:
        log.info("live_message_ended", turn=turn.turn_id, cause=str(error))


async def _show_growing(turn: "LiveTurn", live_message: LiveMessage) -> None:
    message_id = await turn.find_message()
    shown, quiet = "", TYPING_LASTS
    while True:
        seen = to_live_text(turn)
        if seen and seen != shown:
            if message_id is None:
                message_id = await live_message.post(seen)
                await turn.keep_message(message_id)
            else:
                await live_message.edit(message_id, seen)
            shown, quiet = seen, 0.0
        elif quiet >= TYPING_LASTS:
            await live_message.type()
            quiet = 0.0
        if await turn.ends_within(SECONDS_PER_EDIT):
            return
        quiet += SECONDS_PER_EDIT


def to_live_text(turn: "LiveTurn") -> str:
    """Return what is shown of a turn just now: its text, and one line for the tools that run."""
    names = sorted({tool.replace("__", ".") for tool in turn.tools.values()})
    status = f"🔧 {', '.join(names[:5])} …" if names else ""
    return "\n\n".join(part for part in (turn.text.strip(), status) if part)


async def stay_up(name: str, start: Callable[[], Awaitable[None]], now: Callable[[], float]) -> None:
    """Run this for ever: what ends it is logged, and it begins again, later each time.

    A library that is told nonsense by its platform ends with whatever error comes of it; that must not end the process.
    """
    wait = FIRST_WAIT
    while True:
        began = now()
        try:
            await start()
        except Undeliverable as error:
            # Told in full by whoever raised it: a token that is refused, a right that is missing. No traceback helps.
            log.error("platform_refuses", platform=name, cause=str(error), again_in=LONGEST_WAIT)
            wait = LONGEST_WAIT
        except Unavailable as error:
            log.warning("platform_unreachable", platform=name, cause=str(error.__cause__ or error), again_in=wait)
        except Exception:
            # Whatever a library's parser stumbles over; the next connection does not bring it again.
            log.exception("platform_lost", platform=name, again_in=wait)
        wait = FIRST_WAIT if now() - began > STEADY_SECONDS else wait
        await asyncio.sleep(wait)
        wait = min(LONGEST_WAIT, wait * 2)
