"""The address that Slack gives with a click or a command: for 30 minutes, what is said there is said where that was."""

from typing import TYPE_CHECKING

import aiohttp
from slack_sdk.webhook.async_client import AsyncWebhookClient

from adapters.slack.clients import quiet
from adapters.slack.web import Json, Refused
from shared.errors import Unavailable
from shared.log import get_logger

if TYPE_CHECKING:
    from adapters.slack.clients import Clients

# How the reply to a command is told from one to a message: behind it stands the address.
MARK = "respond:"
BUSY = 429

log = get_logger()


def to_reply_to(response_url: str) -> str | None:
    """Return what names a command as that which is replied to; None where Slack has given no address."""
    return f"{MARK}{response_url}" if response_url else None


def find_address(reply_to: str | None) -> str | None:
    """Return the address of the command that is replied to; None when it is a message."""
    return reply_to.removeprefix(MARK) if reply_to is not None and reply_to.startswith(MARK) else None


class Responses:
    """Posts to such addresses."""

    def __init__(self, clients: "Clients") -> None:
        self._clients = clients

    async def whisper(self, url: str, text: str) -> None:
        """Say something to the person alone; who can't be told is not."""
        await self.answer(url, text, is_private=True)

    async def answer(self, url: str, text: str, *, is_private: bool) -> None:
        """Say something to the person alone, or to all there."""
        kind = "ephemeral" if is_private else "in_channel"
        await self._post_or_log(url, {"text": text, "response_type": kind, "replace_original": False})

    async def replace(self, url: str, text: str, blocks: list[Json]) -> None:
        """Change the message that was clicked."""
        await self._post_or_log(url, {"text": text or " ", "blocks": blocks, "replace_original": True})

    async def say(self, url: str, body: Json) -> None:
        """Say something to all there; raises `Refused` when the address is over, `Unavailable` to be tried again."""
        await self._post(url, body | {"response_type": "in_channel", "replace_original": False})

    async def _post_or_log(self, url: str, body: Json) -> None:
        if not url:
            return
        try:
            await self._post(url, body)
        except (Refused, Unavailable) as error:
            log.info("slack_response_not_posted", cause=str(error))

    async def _post(self, url: str, body: Json) -> None:
        client = AsyncWebhookClient(url, session=self._clients.library_client().session, logger=quiet)
        client.retry_handlers = []
        try:
            answer = await client.send_dict(body)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unavailable("Slack can't be reached just now.") from error
        if answer.status_code == BUSY or answer.status_code >= 500:
            raise Unavailable("Slack can't take this just now.")
        if answer.status_code != 200:
            raise Refused("response_url", f"a response address answers {answer.status_code}")
