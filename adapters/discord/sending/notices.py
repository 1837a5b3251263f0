"""Why an answer can't be posted on Discord, in words for people."""

from adapters.discord.transport.rest import MISSING_ACCESS, MISSING_PERMISSIONS, UNKNOWN_CHANNEL, Rest

REASONS = {
    UNKNOWN_CHANNEL: "the channel is gone",
    MISSING_ACCESS: "I can't see the channel; somebody who manages the server can let me in",
    MISSING_PERMISSIONS: "I may not write there; somebody who manages the server can give me the permission",
}


async def send_direct(rest: Rest, reply_id: int, account: str, text: str) -> None:
    """Write to one person; a notice for the same reply is posted once."""
    channel = await rest.open_direct(account)
    body = {"content": text, "nonce": f"notice-{reply_id:x}", "enforce_nonce": True}
    await rest.call("POST", "/channels/{channel_id}/messages", body, channel_id=channel)
