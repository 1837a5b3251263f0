"""The platform as the house uses it: it listens in one process, and sends and shows in every worker."""

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from adapters.base import SECONDS_PER_EDIT, show_live, stay_up
from adapters.discord.events.incoming import PLATFORM
from adapters.discord.sending import notices
from adapters.discord.sending.buttons import answer_rows, stop_row
from adapters.discord.sending.message_writer import MessageWriter, writer_for
from adapters.discord.sending.render import MESSAGE_LIMIT, live
from adapters.discord.sending.reply import nonce_of, send
from adapters.discord.sending.upload_limits import UploadLimits
from adapters.discord.transport.library import redirect
from adapters.discord.transport.rate_limiter import RateLimiter
from adapters.discord.transport.rest import Json, Refused, Rest
from agent.queue.delivery_info import DeliveryInfo, find_delivery_info
from shared.errors import ConfigurationError, Unavailable

if TYPE_CHECKING:
    from adapters.discord.events.checkpoint import Checkpoint
    from agent.app import App
    from agent.events.live import LiveTurn
    from agent.queue.outbox import Reply
    from shared.settings import Settings

REMEMBERED_EDITS = 1000


class DiscordPlatform:
    """Discord with one token."""

    platform = PLATFORM
    message_limit = MESSAGE_LIMIT

    def __init__(self, settings: "Settings", **options: Any) -> None:
        """Take the settings; `options` are the library's for its client."""
        if settings.discord_token is None:
            raise ConfigurationError("DISCORD_TOKEN is not set; docs/discord.md says where to get one.")
        redirect(settings)
        self._token = settings.discord_token.get_secret_value()
        self._settings, self._options = settings, options
        self._app: App | None = None
        self._rest: Rest | None = None
        self._edited: OrderedDict[str, float] = OrderedDict()
        self._upload_limits = UploadLimits()

    async def open(self, app: "App") -> None:
        """Take the house's collaborators; nothing is sent yet."""
        if self._app is None:
            self._app = app
            self._rest = Rest(self._token, RateLimiter(app.database, self._token))

    async def aclose(self) -> None:
        """Close the connections."""
        if self._rest is not None:
            await self._rest.aclose()
        self._app = self._rest = None

    async def listen(self, app: "App") -> None:
        """Hold a gateway connection and take what people write, until cancelled."""
        # Where it sends as well, whoever opened it closes it: answers go out for longer than messages come in.
        is_ours = self._app is None
        await self.open(app)
        try:
            await stay_up(PLATFORM, self._hold_shards, app.clock.monotonic)
        finally:
            if is_ours:
                await self.aclose()

    async def _hold_shards(self) -> None:
        # Imported here: a worker needs no gateway.
        from adapters.discord.events.gateway import Gateway
        from adapters.discord.transport.shards import Shards

        app, rest = self._opened()
        options = self._options

        async def connect(shard_ids: list[int], count: int, seen: "Checkpoint") -> None:
            async with Gateway(app, rest, seen, shard_ids=shard_ids, shard_count=count, **options) as client:
                await client.start_up(self._token)

        await Shards(app, self._settings, rest, connect).run()

    async def send(self, reply: "Reply") -> str | None:
        """Say it by REST; the same reply is never there twice."""
        app, rest = self._opened()
        await self._space_edits(app, reply.live_message_id)
        facts = await find_delivery_info(app.database, reply.turn_id)
        rows = self._rows(app, reply, facts)
        try:
            return await send(app, rest, self._upload_limits, reply, facts, rows)
        except Refused as error:
            await notices.tell(app, rest, reply, facts.asker, error)
            raise

    def _rows(self, app: "App", reply: "Reply", facts: DeliveryInfo) -> list[Json]:
        if not reply.turn_id or facts.asker is None:
            return []
        given = (reply.turn_id, facts.asker, app.clock.now(), reply.choices)
        return answer_rows(*given, status=facts.status, was_edited=facts.was_edited)

    async def show(self, turn: "LiveTurn") -> None:
        """Show an answer while it grows."""
        app, rest = self._opened()
        await show_live(turn, _LiveMessage(app, writer_for(rest, turn.place, turn.reply_to), turn, self._edited))

    def _opened(self) -> "tuple[App, Rest]":
        if self._app is None or self._rest is None:
            raise Unavailable("Discord is not open in this process.")
        return self._app, self._rest

    async def _space_edits(self, app: "App", message_id: str | None) -> None:
        # The final text is an edit as well: it comes a second after the one before.
        last = self._edited.pop(message_id or "", None)
        if last is not None:
            await asyncio.sleep(max(0.0, last + SECONDS_PER_EDIT - app.clock.monotonic()))


class _LiveMessage:
    """The message in which an answer grows."""

    def __init__(self, app: "App", writer: MessageWriter, turn: "LiveTurn", edited: OrderedDict[str, float]) -> None:
        self._app, self._pen, self._turn, self._edited = app, writer, turn, edited

    async def type(self) -> None:
        """Show that somebody is writing."""
        await self._pen.type()

    async def post(self, text: str) -> str:
        """Make the message; the final text will have its nonce."""
        message_id = str((await self._pen.write(self._body(text), f"{nonce_of(self._turn.turn_id)}-0"))["id"])
        self._note(message_id)
        return message_id

    async def edit(self, message_id: str, text: str) -> None:
        """Change the message."""
        await self._pen.change(message_id, self._body(text))
        self._note(message_id)

    def _body(self, text: str) -> Json:
        row = stop_row(self._turn.turn_id, self._turn.asker, self._app.clock.now())
        return {"content": live(text), "allowed_mentions": {"parse": []}, "components": row}

    def _note(self, message_id: str) -> None:
        self._edited[message_id] = self._app.clock.monotonic()
        if len(self._edited) > REMEMBERED_EDITS:
            self._edited.popitem(last=False)
