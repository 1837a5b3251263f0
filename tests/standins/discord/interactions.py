"""Interactions: a command or click, the answer due within 3 s, and the webhook for 15 minutes."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import uuid4

from tests.standins.discord import rules
from tests.standins.discord.rest import Call, change_message, route
from tests.standins.discord.rules import Refused
from tests.standins.discord.world import EPHEMERAL, LOADING, Json, snowflake

ACK_SECONDS, TOKEN_SECONDS = 3.0, 900.0
SAY, DEFER, DEFER_UPDATE, UPDATE, MODAL = 4, 5, 6, 7, 9
FORM = 5
CHECKS: dict[int, Callable[[Json, int], None]] = {
    SAY: rules.check_response,
    DEFER: rules.check_deferral,
    DEFER_UPDATE: rules.check_deferral,
    UPDATE: partial(rules.check_message, is_edit=True),
    MODAL: rules.check_form,
}


@dataclass
class Interaction:
    """One interaction with its responses in `messages`; the first is the original one."""

    payload: Json
    token: str = field(default_factory=lambda: uuid4().hex * 4)
    began: float = field(default_factory=time.monotonic)
    kind: int | None = None
    acked_after: float | None = None
    is_private: bool = False
    form: Json = field(default_factory=dict)
    messages: list[Json] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def text(self) -> str:
        """Return the answer that the person sees; empty while it is deferred."""
        return str(self.messages[0]["content"]) if self.messages else ""

    async def tell(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    async def acked(self) -> "Interaction":
        """Wait until it is acknowledged; fails when that takes longer than Discord waits."""
        async with asyncio.timeout(ACK_SECONDS + 1), self.changed:
            await self.changed.wait_for(lambda: self.kind is not None)
        return self

    async def answered(self) -> str:
        """Return the text of the answer once there is one."""
        await self.acked()
        async with asyncio.timeout(60), self.changed:
            await self.changed.wait_for(lambda: bool(self.text) and not self.messages[0]["flags"] & LOADING)
        return self.text


@route("POST", "/interactions/{}/{}/callback")
async def respond(call: Call) -> Json | None:
    interaction = call.standin.interactions.get(call.ids[1])
    if interaction is None or interaction.payload["id"] != call.ids[0]:
        raise Refused(404, 10062, "Unknown interaction")
    if interaction.kind is not None:
        raise Refused(400, 40060, "Interaction has already been acknowledged.")
    if time.monotonic() - interaction.began > ACK_SECONDS:
        raise Refused(404, 10062, "Unknown interaction")
    kind, response = call.body.get("type"), call.body.get("data") or {}
    if kind not in CHECKS:
        raise rules.invalid("type", "Value must be one of {1, 4, 5, 6, 7, 8, 9, 10, 12}.")
    _check_kind(kind, interaction.payload)
    inner = Call(call.standin, call.ids, call.query, response, call.files)
    CHECKS[kind](response, len(call.files))
    interaction.is_private = bool(response.get("flags", 0) & EPHEMERAL)
    if kind in (SAY, DEFER):
        await _say(inner, interaction, LOADING if kind == DEFER else 0)
    elif kind == MODAL:
        interaction.form = response
    elif kind == DEFER_UPDATE:
        # From then on, "@original" is the message that was clicked.
        interaction.messages.append(interaction.payload["message"])
    elif kind == UPDATE:
        message = interaction.payload["message"]
        await change_message(inner, call.standin.world.channels[message["channel_id"]], message)
    interaction.kind, interaction.acked_after = kind, time.monotonic() - interaction.began
    await interaction.tell()
    return None


def _check_kind(kind: int, payload: Json) -> None:
    """Refuse to edit a message that nobody clicked, and to open a form on a form."""
    if (kind in (DEFER_UPDATE, UPDATE) and "message" not in payload) or (kind == MODAL and payload["type"] == FORM):
        raise rules.invalid("type", "Value is not allowed for this interaction.")


async def _say(call: Call, interaction: Interaction, flags: int) -> Json:
    world = call.standin.world
    channel = world.channels[interaction.payload["channel_id"]]
    parameters: dict[str, Any] = {
        "type": 20,
        "flags": call.body.get("flags", 0) | flags,
        "components": call.body.get("components") or [],
        "attachments": call.standin.keep_files(channel["id"], call.files),
        "webhook_id": world.bot["id"],
        "interaction_metadata": _metadata(interaction),
    }
    content = (call.body.get("content") or "").strip()
    if interaction.is_private or call.body.get("flags", 0) & EPHEMERAL:
        # Ephemeral, so it is not a message of the channel.
        author = world.bot
        message = {"id": snowflake(), "channel_id": channel["id"], "author": author, "content": content} | parameters
    else:
        message = world.keep_message(channel, world.bot, content, **parameters)
        await call.standin.tell_message("MESSAGE_CREATE", message)
    interaction.messages.append(message)
    return message


def _metadata(interaction: Interaction) -> Json:
    payload = interaction.payload
    user = payload["user"] if "user" in payload else payload["member"]["user"]
    origin = {"id": payload["id"], "type": payload["type"], "user": user, "authorizing_integration_owners": {}}
    # Follow-ups name the first response.
    first = interaction.messages[0]["id"] if interaction.messages else None
    return origin | ({"original_response_message_id": first} if first is not None else {})


def _open(call: Call) -> Interaction:
    interaction = call.standin.interactions.get(call.ids[1])
    if call.ids[0] != call.standin.world.bot["id"] or interaction is None or interaction.kind is None:
        raise Refused(404, 10015, "Unknown Webhook")
    if time.monotonic() - interaction.began > TOKEN_SECONDS:
        raise Refused(401, 50027, "Invalid Webhook Token")
    return interaction


def _with_name(call: Call, interaction: Interaction) -> Json:
    message_id = call.ids[2]
    for index, message in enumerate(interaction.messages):
        if message["id"] == message_id or (message_id == "@original" and index == 0):
            return message
    raise Refused(404, 10008, "Unknown Message")


@route("GET", "/webhooks/{}/{}/messages/{}")
async def get_response(call: Call) -> Json:
    return _with_name(call, _open(call))


@route("PATCH", "/webhooks/{}/{}/messages/{}")
async def edit_response(call: Call) -> Json:
    interaction = _open(call)
    message = _with_name(call, interaction)
    rules.check_message(call.body, len(call.files), is_edit=True)
    await change_message(call, call.standin.world.channels[message["channel_id"]], message)
    message["flags"] &= ~LOADING
    await interaction.tell()
    return message


@route("DELETE", "/webhooks/{}/{}/messages/{}")
async def delete_response(call: Call) -> None:
    interaction = _open(call)
    message = _with_name(call, interaction)
    await call.standin.forget_message(call.standin.world.channels[message["channel_id"]], message)
    interaction.messages.remove(message)


@route("POST", "/webhooks/{}/{}")
async def follow_up(call: Call) -> Json:
    interaction = _open(call)
    rules.check_response(call.body, len(call.files))
    if interaction.messages and interaction.messages[0]["flags"] & LOADING:
        # The first follow-up to a deferred response becomes that response, with the deferral's visibility.
        first = interaction.messages[0]
        await change_message(call, call.standin.world.channels[first["channel_id"]], first)
        first["flags"] &= ~LOADING
        await interaction.tell()
        return first
    message = await _say(call, interaction, 0)
    await interaction.tell()
    return message
