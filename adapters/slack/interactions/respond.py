"""How clicks and commands are acknowledged, and answered: by a view, or at their response URL.

For 30 minutes, messages posted there appear where the person acted.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import aiohttp
from slack_sdk.webhook.async_client import AsyncWebhookClient

from adapters.chat.parts import links_to
from adapters.slack.events.incoming import PLATFORM
from adapters.slack.install import COMMAND
from adapters.slack.sending.render import neutralise_mentions, render, to_blocks, to_notice
from adapters.slack.transport.api import Json, Refused
from adapters.slack.transport.clients import quiet
from agent import commands
from shared.errors import Unavailable
from shared.log import get_logger
from shared.tasks import run_on_text

if TYPE_CHECKING:
    from adapters.base import Running
    from adapters.slack.transport.clients import Clients
    from agent.queue.outbox import Reply

Listener = Callable[[Any, Json], Awaitable[None]]
# The prefix of a `reply_to` that is a response URL and not a message.
PREFIX = "respond:"
# The prefix of one by which the message that was clicked is replaced.
REPLACE = "replace:"
TOO_MANY_REQUESTS = 429
NO_FORM = "I could not open the form; please try again."
NOT_INSTALLED = "I am not installed in this workspace any more."
NOT_A_MEMBER = frozenset({"not_in_channel", "channel_not_found"})

log = get_logger()


def url_of(body: Json) -> str:
    """Return the response URL of a payload; empty if there is none."""
    return str(body.get("response_url") or "")


def to_reply_to(response_url: str) -> str | None:
    """Return the `reply_to` for a command; None if there is no response URL."""
    return f"{PREFIX}{response_url}" if response_url else None


def find_url(reply_to: str | None) -> str | None:
    """Return the response URL in a `reply_to`; None if it is a message."""
    return reply_to.removeprefix(PREFIX) if reply_to is not None and reply_to.startswith(PREFIX) else None


def to_plain_text(text: str) -> Json:
    """Return a text in which nothing is marked up."""
    return {"type": "plain_text", "text": text, "emoji": False}


def to_section(text: str) -> Json:
    """Return a text as a block."""
    return {"type": "section", "text": to_plain_text(text)}


def to_modal(title: str, blocks: list[Json], *, close: str = "Close", submit: str = "", **fields: str) -> Json:
    """Return a view: a form, if it is submitted."""
    view = {"type": "modal", "title": to_plain_text(title), "close": to_plain_text(close), "blocks": blocks}
    return view | fields | ({"submit": to_plain_text(submit)} if submit else {})


def in_slack(answer: str) -> str:
    """Return a command's answer with Slack's names of the commands: `/budget` becomes `/parley budget`."""
    return commands.name_commands(PLATFORM, answer, f"{COMMAND} ")


def in_background(running: "Running", work: Callable[[Json], Awaitable[None]], name: str) -> Listener:
    """Return a listener that acknowledges a click at once; `work` goes on with its payload."""

    async def listen(ack: Any, body: Json) -> None:
        await ack()
        running.start(work(body), name)

    return listen


class Responses:
    """Posts to response URLs."""

    def __init__(self, clients: "Clients") -> None:
        self._clients = clients

    async def whisper(self, url: str, text: str) -> None:
        """Post a message that only this person sees; a failure is only logged."""
        await self._post_or_log(url, {"text": text, "response_type": "ephemeral", "replace_original": False})

    async def answer(self, url: str, text: str, blocks: Sequence[Json]) -> None:
        """Post a message for one person; the text is for notifications.

        Raises `Refused` when the URL has expired, `Unavailable` when Slack is away.
        """
        if not url:
            raise Refused("response_url", "there is no response address")
        kept: Json = {"response_type": "ephemeral", "replace_original": False}
        await self._post(url, {"text": text, "blocks": list(blocks), **kept})

    async def change(self, url: str, text: str) -> None:
        """Replace the message that was clicked by the reply to a command; raises as `answer` does."""
        markup = in_slack(text)
        blocks = to_blocks(neutralise_mentions(markup))
        await self._post(url, {"text": to_notice(markup), "blocks": blocks, "replace_original": True})

    async def replace(self, url: str, text: str, blocks: list[Json]) -> None:
        """Replace the message that was clicked; a failure is only logged."""
        await self._post_or_log(url, {"text": text or " ", "blocks": blocks, "replace_original": True})

    async def post(self, url: str, body: Json) -> None:
        """Post for everybody; raises `Refused` when the URL has expired, `Unavailable` when it may be tried again."""
        await self._post(url, body | {"response_type": "in_channel", "replace_original": False})

    async def reply(self, reply: "Reply", rows: Sequence[Json], *, error: Refused) -> None:
        """Post a reply to a command or form in a channel that the agent is not in.

        Raises `error` if there is no response URL, or it has expired. Response URLs can't be read back: if the process
        dies during this call, the reply may be posted twice.
        """
        url = find_url(reply.reply_to)
        if url is None or error.platform_code not in NOT_A_MEMBER:
            raise error
        links = links_to(reply.files)
        text = "\n".join([reply.content, *links])
        rendered = await run_on_text(partial(render, allows_mentions=reply.delivery.allows_mentions), text)
        where: Json = {"thread_ts": reply.place.thread} if reply.place.thread else {}
        for index, part in enumerate(rendered.parts):
            await reply.check_claim()
            below = rows if index == len(rendered.parts) - 1 else ()
            try:
                await self.post(url, {"text": to_notice(part), "blocks": [*to_blocks(part), *below], **where})
            except Refused:
                # The URL has expired: the reason is what Slack answered first.
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
        if answer.status_code == TOO_MANY_REQUESTS or answer.status_code >= 500:
            raise Unavailable("Slack can't accept this just now.")
        if answer.status_code != 200:
            raise Refused("response_url", f"a response address answers {answer.status_code}")
