"""An answer that can't be written where it belongs: its asker is told once, in a direct message."""

from typing import TYPE_CHECKING

from adapters.chat.notices import NOTICE, was_told
from adapters.slack.transport.api import Refused, Web
from shared.errors import Unavailable
from shared.log import get_logger

if TYPE_CHECKING:
    from agent.app import App
    from agent.queue.outbox import Reply

REASONS = {
    "channel_not_found": "I can't see that channel; somebody in it can invite me",
    "not_in_channel": "I am not in that channel; somebody in it can invite me",
    "is_archived": "that channel is archived",
    "restricted_action": "only some people may write there",
    "restricted_action_read_only_channel": "only some people may write there",
    "restricted_action_thread_only_channel": "only some people may write there",
    "restricted_action_non_threadable_channel": "I may not write there",
    "restricted_action_thread_locked": "that thread is locked",
}

log = get_logger()


async def tell(app: "App", web: Web, reply: "Reply", asker: str | None, error: Refused) -> None:
    """Tell the asker why there is no answer, unless that was told today."""
    reason = REASONS.get(error.slack_code)
    if reason is None or asker is None or reply.place.is_direct or await was_told(app, reply, asker):
        return
    notice = NOTICE.format(channel=reply.place.channel, reason=reason)
    try:
        opened = await web.call("conversations.open", users=asker.rpartition(":")[2])
        await web.call("chat.postMessage", channel=str(opened["channel"]["id"]), text=notice)
    except (Refused, Unavailable) as refusal:
        # Who takes no direct messages can't be told.
        log.info("notice_not_sent", reply=reply.id, cause=str(refusal))
