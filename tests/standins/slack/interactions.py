"""Interactions: a click, a command or a form, with a trigger for 3 seconds and a response URL for 30 minutes."""

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import uuid4

from aiohttp import web

from tests.standins.slack.chat import content_of
from tests.standins.slack.journal import Envelope
from tests.standins.slack.rules import Refused, check_texts
from tests.standins.slack.world import Json, stamp

if TYPE_CHECKING:
    from tests.standins.slack.server import SlackStandIn

MOST_RESPONSES, RESPONSE_SECONDS = 5, 1800.0
_RESPONSE_FIELDS = (
    "text blocks attachments response_type replace_original delete_original thread_ts unfurl_links unfurl_media "
    "metadata mrkdwn markdown_text"
)
RESPONSE_FIELDS = frozenset(_RESPONSE_FIELDS.split())


@dataclass
class Interaction:
    """One interaction: `envelope` has the acknowledgement, `responses` the later posts."""

    standin: "SlackStandIn"
    payload: Json
    user: Json
    channel: Json | None = None
    message: Json | None = None
    envelope: Envelope | None = None
    responses: list[Json] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    @property
    def is_acked(self) -> bool:
        """Tell whether the app acknowledged it within three seconds."""
        return self.envelope is not None and self.envelope.acked_at is not None

    @property
    def response(self) -> Json:
        """Return the acknowledgement's payload."""
        payload = self.envelope.response if self.envelope is not None else None
        return payload if isinstance(payload, dict) else {"text": payload} if payload else {}

    @property
    def texts(self) -> list[str]:
        """Return the answers to the person, in the acknowledgement and later."""
        responses = [self.response, *self.responses]
        return [response["text"] for response in responses if response.get("text")]

    async def answered(self, count: int = 1) -> list[str]:
        """Return the answers as soon as there are this many."""
        await self.standin.until(lambda: len(self.texts) >= count)
        return self.texts

    async def view(self) -> Json:
        """Return the modal that this has opened, as soon as it exists."""
        before = self.payload.get("trigger_id")

        def find_view() -> Json | None:
            calls = self.standin.calls("views.open", ok=True)
            return next((call.answer["view"] for call in calls if call.args.get("trigger_id") == before), None)

        return dict(await self.standin.until(find_view))


class Interactions:
    """Issued triggers and response URLs."""

    def __init__(self, standin: "SlackStandIn") -> None:
        self.standin = standin
        self.triggers: dict[str, Json] = {}
        self.open: dict[str, Interaction] = {}

    def new_trigger(self, user_id: str) -> str:
        trigger = f"{uuid4().int % 10**12}.{uuid4().int % 10**12}.{uuid4().hex}"
        self.triggers[trigger] = {"at": time.monotonic(), "user": user_id, "is_used": False}
        return trigger

    async def begin(self, kind: str, interaction: Interaction, *, responds: bool = True) -> Interaction:
        """Deliver an interaction and wait until it is acknowledged or fails."""
        if responds:
            key = uuid4().hex
            interaction.payload["response_url"] = f"{self.standin.base}/respond/{key}"
            self.open[key] = interaction
        interaction.payload["trigger_id"] = self.new_trigger(interaction.user["id"])
        interaction.envelope = await self.standin.delivery.give(kind, interaction.payload)
        if interaction.response.get("text") and kind == "slash_commands":
            await self._respond(interaction, interaction.response)
        return interaction

    async def take_response(self, request: web.BaseRequest) -> web.Response:
        """Accept a post to a response URL."""
        interaction = self.open.get(request.path.rpartition("/")[2])
        raw = await request.content.read()
        if interaction is None or time.monotonic() - interaction.began > RESPONSE_SECONDS:
            return web.json_response({"ok": False, "error": "expired_url"}, status=404)
        if len(interaction.responses) >= MOST_RESPONSES:
            return web.json_response({"ok": False, "error": "used_url"}, status=404)
        response = json.loads(raw)
        unknown = set(response) - RESPONSE_FIELDS
        if unknown:
            return web.json_response({"ok": False, "error": "invalid_payload", "unknown": sorted(unknown)}, status=400)
        try:
            if not response.get("delete_original"):
                check_texts(response)
        except Refused as error:
            return web.json_response(error.answer, status=400)
        interaction.responses.append(response)
        self.standin.journal.responses.append(response | {"user": interaction.user["id"]})
        await self._respond(interaction, response)
        await self.standin.tell()
        return web.Response(text="ok")

    async def _respond(self, interaction: Interaction, response: Json) -> None:
        channel, original = interaction.channel, interaction.message
        if channel is None:
            return
        if original is not None and (response.get("delete_original") or response.get("replace_original")):
            await self._change_original(channel, original, response)
        elif response.get("response_type") == "in_channel":
            await self._say(interaction, channel, response)
        else:
            note = {"channel": channel["id"], "for": interaction.user["id"], "ts": stamp()}
            if response.get("thread_ts"):
                note["thread_ts"] = response["thread_ts"]
            self.standin.world.ephemerals.append({**content_of(response), **note})

    async def _change_original(self, channel: Json, original: Json, response: Json) -> None:
        ephemerals = self.standin.world.ephemerals
        if original in ephemerals and response.get("delete_original"):
            ephemerals.remove(original)
        elif original in ephemerals:
            original.update({"blocks": []} | content_of(response))
        elif response.get("delete_original"):
            await self.standin.forget(channel, original)
        else:
            await self.standin.change(channel, original, content_of(response), edited_by=original["user"])

    async def _say(self, interaction: Interaction, channel: Json, response: Json) -> None:
        installation = self.standin.world.installation_of(channel["context_team_id"])
        if installation is None:
            return
        content = content_of(response) | {"user": installation.bot["id"], "bot_id": installation.bot_id}
        if response.get("thread_ts"):
            content["thread_ts"] = response["thread_ts"]
        message = self.standin.world.keep_message(channel, content.pop("text"), **content)
        await self.standin.events.message(channel, message)
