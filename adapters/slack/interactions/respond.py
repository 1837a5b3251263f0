"""The address that Slack gives with a click or a command: for 30 minutes, what is said there is said where that was."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import aiohttp
from slack_sdk.webhook.async_client import AsyncWebhookClient

from adapters.slack.sending.render import links_to, render, to_blocks, to_notice
from adapters.slack.transport.api import Json, Refused
from adapters.slack.transport.clients import quiet
from shared.errors import Unavailable
from shared.log import get_logger

if TYPE_CHECKING:
    from adapters.slack.transport.clients import Clients
    from agent.queue.delivery_info import DeliveryInfo
    from agent.queue.outbox import Reply

# How the reply to a command is told from one to a message: behind it stands the address.
MARK = "respond:"
BUSY = 429
NOT_A_MEMBER = frozenset({"not_in_channel", "channel_not_found"})

log = get_logger()


def url_of(body: Json) -> str:
    """Return the address that came with a click or a command; empty where Slack gives none."""
    return str(body.get("response_url") or "")


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

    async def answer(self, url: str, text: str, *, is_private: bool, blocks: Sequence[Json] = ()) -> None:
        """Say something to the person alone, or to all there; with `blocks` the text is for notifications."""
        kind = "ephemeral" if is_private else "in_channel"
        body: Json = {"text": text, "response_type": kind, "replace_original": False}
        await self._post_or_log(url, body | ({"blocks": list(blocks)} if blocks else {}))

    async def replace(self, url: str, text: str, blocks: list[Json]) -> None:
        """Change the message that was clicked."""
        await self._post_or_log(url, {"text": text or " ", "blocks": blocks, "replace_original": True})

    async def say(self, url: str, body: Json) -> None:
        """Say something to all there; raises `Refused` when the address is over, `Unavailable` to be tried again."""
        await self._post(url, body | {"response_type": "in_channel", "replace_original": False})

    async def reply(self, reply: "Reply", delivery: "DeliveryInfo", rows: Sequence[Json], *, error: Refused) -> None:
        """Answer a command or a form where the agent is no member; raises the `error` where there is no such way.

        Slack does not tell what is there already: an answer whose sender dies right here may come twice.
        """
        url = find_address(reply.reply_to)
        if url is None or error.slack_code not in NOT_A_MEMBER:
            raise error
        links = links_to(reply.files)
        rendered = render("\n".join([reply.content, *links]), allows_mentions=delivery.allows_mentions)
        where: Json = {"thread_ts": reply.place.thread} if reply.place.thread else {}
        for index, part in enumerate(rendered.parts):
            below = rows if index == len(rendered.parts) - 1 else ()
            try:
                await self.say(url, {"text": to_notice(part), "blocks": [*to_blocks(part), *below], **where})
            except Refused:
                # The address is over: what Slack said first is the reason.
                raise error from None

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
