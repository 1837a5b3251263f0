"""An answer that can't be written where it belongs: its asker is told once, in a direct message."""

from typing import TYPE_CHECKING

from adapters.chat.notices import NOTICE, was_told
from adapters.discord.transport.rest import MISSING_ACCESS, MISSING_PERMISSIONS, UNKNOWN_CHANNEL, Refused, Rest
from shared.errors import Unavailable
from shared.log import get_logger

if TYPE_CHECKING:
    from agent.app import App
    from agent.queue.outbox import Reply

REASONS = {
    UNKNOWN_CHANNEL: "the channel is gone",
    MISSING_ACCESS: "I can't see the channel; somebody who manages the server can let me in",
    MISSING_PERMISSIONS: "I may not write there; somebody who manages the server can give me the permission",
}

log = get_logger()


async def tell(app: "App", rest: Rest, reply: "Reply", asker: str | None, error: Refused) -> None:
    """Tell the asker why there is no answer, unless that was told today."""
    reason = REASONS.get(error.number)
    if reason is None or asker is None or reply.place.is_direct or await was_told(app, reply, asker):
        return
    notice = NOTICE.format(channel=reply.place.thread or reply.place.channel, reason=reason)
    try:
        channel = await rest.open_direct(asker)
        body = {"content": notice, "nonce": f"notice-{reply.id:x}", "enforce_nonce": True}
        await rest.call("POST", "/channels/{channel_id}/messages", body, channel_id=channel)
    except (Refused, Unavailable) as refusal:
        # Who takes no direct messages can't be told.
        log.info("notice_not_sent", reply=reply.id, cause=str(refusal))
