"""The notice to a person whose answer can't be posted on Slack."""

from adapters.slack.transport.api import Web

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


async def open_direct(web: Web, account: str) -> str:
    """Return the id of the direct messages with a person."""
    opened = await web.call("conversations.open", users=account.rpartition(":")[2])
    return str(opened["channel"]["id"])


async def send_direct(web: Web, account: str, text: str) -> None:
    """Send a direct message."""
    await web.call("chat.postMessage", channel=await open_direct(web, account), text=text)
