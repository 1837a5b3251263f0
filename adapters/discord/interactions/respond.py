"""The first response to an interaction, which Discord expects within three seconds."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import discord
from msgspec import Struct

from adapters.base import STORE_SECONDS
from adapters.discord.sending.response_writer import EPHEMERAL, SUPPRESS_EMBEDS, ResponseWriter
from adapters.discord.transport.rest import Json, Manner, Refused, Rest, insist
from agent.queue.inbox import Inbox
from shared.db.database import retry_on_lost_db
from shared.errors import ParleyError
from shared.log import get_logger
from shared.messages import IncomingMessage

SAY, DEFER, DEFER_UPDATE, UPDATE, FORM = 4, 5, 6, 7, 9
TEXT_INPUT, LABEL, SHORT, PARAGRAPH = 4, 18, 1, 2
FIELD = "text"
# Seconds that storing a message may take before the acknowledgement is sent.
AT_ONCE_SECONDS = 1.5
# Seconds for which a response is repeated, of the three that Discord waits.
RESPOND_SECONDS = 2.0
ALREADY_ACKNOWLEDGED = 40060
SORRY = "I can't do this just now; please try again in a moment."

log = get_logger()


class Form(Struct, frozen=True):
    """A form with one text field, of one line or of several."""

    title: str
    label: str
    max_chars: int
    is_long: bool = False


class Acknowledger:
    """Acknowledges interactions."""

    def __init__(self, rest: Rest) -> None:
        self._rest, self.adapter = rest, rest.bot.adapter

    async def defer(self, interaction: discord.Interaction, *, is_private: bool) -> None:
        """Acknowledge with "is thinking…", for everybody or for this person only."""
        await self._respond(interaction, DEFER, {"flags": EPHEMERAL} if is_private else {})

    async def defer_update(self, interaction: discord.Interaction) -> None:
        """Acknowledge a click whose message is edited later."""
        await self._respond(interaction, DEFER_UPDATE, {})

    async def edit(self, token: str, text: str) -> None:
        """Replace the message that was clicked by a text without buttons."""
        body: Json = {"content": text, "components": [], "allowed_mentions": {"parse": []}}
        await insist(partial(ResponseWriter(self._rest, token).change, "@original", body))

    async def respond(
        self, interaction: discord.Interaction, text: str, *, is_private: bool, rows: Sequence[Json] = ()
    ) -> None:
        """Respond with a text, for everybody or for this person only; `rows` are the buttons below it."""
        flags = SUPPRESS_EMBEDS | (EPHEMERAL if is_private else 0)
        body: Json = {"content": text, "flags": flags, "allowed_mentions": {"parse": []}}
        await self._respond(interaction, SAY, body | ({"components": list(rows)} if rows else {}))

    async def whisper(self, interaction: discord.Interaction, text: str) -> None:
        """Respond with a text that only this person sees."""
        await self.respond(interaction, text, is_private=True)

    async def update(self, interaction: discord.Interaction, rows: list[Json]) -> None:
        """Replace the buttons of the message that was clicked."""
        await self._respond(interaction, UPDATE, {"components": rows})

    async def replace_buttons(self, token: str, rows: list[Json]) -> None:
        """Replace the buttons of the response to an earlier interaction, if Discord still takes that."""
        try:
            await ResponseWriter(self._rest, token).change("@original", {"components": rows})
        except ParleyError as error:
            log.info("buttons_not_replaced", cause=str(error))

    async def ask_for_text(self, interaction: discord.Interaction, custom_id: str, form: Form) -> None:
        """Open a form with one text field."""
        style = PARAGRAPH if form.is_long else SHORT
        text: Json = {"type": TEXT_INPUT, "custom_id": FIELD, "style": style, "max_length": form.max_chars}
        label: Json = {"type": LABEL, "label": form.label, "component": text}
        await self.show_form(interaction, {"custom_id": custom_id, "title": form.title, "components": [label]})

    async def show_form(self, interaction: discord.Interaction, form: Json) -> None:
        """Open a form."""
        await self._respond(interaction, FORM, form)

    async def apologise(self, interaction: discord.Interaction, text: str) -> None:
        """Tell only this person why there is no answer, whether the interaction is acknowledged or not."""
        try:
            await self.whisper(interaction, text)
        except Refused:
            writer = ResponseWriter(self._rest, interaction.token, is_private=True, follows=True)
            await writer.write({"content": text, "allowed_mentions": {"parse": []}}, "apology")

    async def _respond(self, interaction: discord.Interaction, kind: int, body: Json) -> None:
        path = "/interactions/{webhook_id}/{webhook_token}/callback"
        ids: Json = {"webhook_id": str(interaction.id), "webhook_token": interaction.token}
        tries, manner = 0, Manner(pace="hurries", is_repeated=False)

        async def respond() -> None:
            nonlocal tries
            tries += 1
            try:
                await self._rest.call("POST", path, {"type": kind, "data": body}, manner=manner, **ids)
            except Refused as error:
                # An earlier try was taken, and only its confirmation was lost.
                if tries == 1 or error.platform_code != ALREADY_ACKNOWLEDGED:
                    raise

        await insist(respond, RESPOND_SECONDS)


async def store(
    inbox: Inbox, message: IncomingMessage, acknowledge: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Store a message, then acknowledge its interaction; after AT_ONCE_SECONDS it is acknowledged before.

    A worker that is faster than the acknowledgement waits for it.
    """
    storing = asyncio.create_task(retry_on_lost_db(lambda: inbox.accept(message), STORE_SECONDS), name="storing")
    await asyncio.wait({storing}, timeout=AT_ONCE_SECONDS)
    try:
        if acknowledge is not None:
            await acknowledge()
    finally:
        await storing


def text_of(payload: Any) -> str:
    """Return the text in the field of a form."""
    for label in payload.get("components", ()):
        if "value" in (field := label.get("component") or {}):
            return str(field["value"])
    return ""
