"""Live text: one message that is edited while the answer is generated, at most once a second."""

from typing import TYPE_CHECKING, Protocol

from shared.errors import ParleyError, Unavailable
from shared.log import get_logger

if TYPE_CHECKING:
    from agent.live.announcer import LiveTurn

# An answer that is complete before this is posted once, without edits.
LIVE_AFTER = 1.0
TYPING_LASTS, SECONDS_PER_EDIT = 8.0, 1.0

log = get_logger()


class LiveMessage(Protocol):
    """The message in which live text is shown."""

    async def type(self) -> None:
        """Show the typing indicator."""
        ...

    async def post(self, text: str) -> str:
        """Post the message and return its id; raises `Unavailable` only if it may be tried again."""
        ...

    async def edit(self, message_id: str, text: str) -> None:
        """Edit the message."""
        ...


async def show_live(turn: "LiveTurn", live_message: LiveMessage, *, after: float = LIVE_AFTER) -> None:
    """Show the typing indicator, then live text with at most one edit a second, beginning `after` these seconds.

    While the platform is unavailable the text is tried again each second; any other error ends the live text, not the
    turn.
    """
    try:
        if await turn.ends_within(after):
            return
        await _show_growing(turn, live_message)
    except ParleyError as error:
        log.info("live_message_ended", turn=turn.turn_id, cause=str(error))


async def _show_growing(turn: "LiveTurn", live_message: LiveMessage) -> None:
    message_id = await turn.find_message()
    # The text that the platform has confirmed, and the seconds since anything was shown.
    visible_text, quiet_seconds = "", TYPING_LASTS
    while True:
        try:
            text = to_live_text(turn)
            has_grown = text not in ("", visible_text)
            if has_grown and message_id is not None:
                await live_message.edit(message_id, text)
            elif has_grown:
                message_id = await live_message.post(text)
                await turn.keep_message(message_id)
            if has_grown:
                visible_text, quiet_seconds = text, 0.0
            elif quiet_seconds >= TYPING_LASTS:
                await live_message.type()
                quiet_seconds = 0.0
        except Unavailable as error:
            log.info("live_text_late", turn=turn.turn_id, cause=str(error))
        if await turn.ends_within(SECONDS_PER_EDIT):
            return
        quiet_seconds += SECONDS_PER_EDIT


def to_live_text(turn: "LiveTurn") -> str:
    """Return the live text of a turn: its text, and one line for the tool calls that are running."""
    names = sorted({tool.replace("__", ".") for tool in turn.tools})
    status = f"🔧 {', '.join(names[:5])} …" if names else ""
    return "\n\n".join(part for part in (turn.text.strip(), status) if part)
