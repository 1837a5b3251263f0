"""The notice to a person whose answer can't be posted on Discord."""

from adapters.discord.transport.rest import MISSING_ACCESS, MISSING_PERMISSIONS, UNKNOWN_CHANNEL, Rest

REASONS = {
    UNKNOWN_CHANNEL: "the channel is gone",
    MISSING_ACCESS: "I can't see the channel; somebody who manages the server can let me in",
    MISSING_PERMISSIONS: "I may not write there; somebody who manages the server can give me the permission",
}


async def send_direct(rest: Rest, nonce: str, account: str, text: str) -> None:
    """Send a direct message; a second one with this nonce is not sent."""
    channel = await rest.open_direct(account)
    body = {"content": text, "nonce": nonce, "enforce_nonce": True}
    await rest.call("POST", "/channels/{channel_id}/messages", body, channel_id=channel)
