"""Discord as a `ChatPlatform`: one process listens, every worker sends and shows live text."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator
from functools import partial
from typing import TYPE_CHECKING, Any

from adapters.base import ChatPlatform, Finding
from adapters.chat.buttons import AnswerButtons, TurnButtons, buttons_below
from adapters.chat.live import SECONDS_PER_EDIT, show_live
from adapters.chat.notices import notify_asker
from adapters.discord.events.incoming import PLATFORM
from adapters.discord.sending.message_writer import MessageWriter, writer_for
from adapters.discord.sending.notices import REASONS, send_direct
from adapters.discord.sending.render import live, to_rows
from adapters.discord.sending.reply import UploadLimits, nonce_of_turn, send, to_nonce
from adapters.discord.settings import DiscordSettings
from adapters.discord.transport.library import redirect
from adapters.discord.transport.rest import Json, RateLimiter, Refused, Rest
from agent.queue.outbox import find_delivery_info
from shared.errors import ConfigurationError, Unavailable

if TYPE_CHECKING:
    from adapters.discord.events.checkpoint import Checkpoint
    from agent.app import App
    from agent.events.announcer import LiveTurn
    from agent.queue.outbox import Reply
    from shared.settings import Settings

REMEMBERED_EDITS = 1000


class DiscordPlatform(ChatPlatform):
    """Discord with one bot token."""

    name = PLATFORM
    settings: DiscordSettings

    def __init__(self, settings: DiscordSettings, **options: Any) -> None:
        """Store the settings; `options` are passed to the library's client."""
        if settings.token is None:
            raise ConfigurationError("DISCORD_TOKEN is not set; docs/discord.md says where to get one.")
        super().__init__(settings)
        redirect(settings)
        self._token, self._options = settings.token.get_secret_value(), options
        self._rest: Rest | None = None
        self._edited: OrderedDict[str, float] = OrderedDict()
        self._upload_limits = UploadLimits()

    @property
    def rest(self) -> Rest:
        """Return the REST client; raises `Unavailable` while the platform is not open."""
        if self._rest is None:
            raise Unavailable("Discord is not open in this process.")
        return self._rest

    async def open(self, app: "App") -> None:
        """Create the clients and limits from the app's collaborators; no request is sent yet."""
        await super().open(app)
        self._rest = Rest(self._token, RateLimiter(app.database, self._token))

    async def aclose(self) -> None:
        """Close the connections."""
        if self._rest is not None:
            await self._rest.aclose()
            self._rest = None
        await super().aclose()

    async def receive(self) -> None:
        """Hold gateway connections for the shards that this process gets, until they are lost."""
        # Imported here because a worker needs no gateway.
        from adapters.discord.gateway import Gateway
        from adapters.discord.shards import Shards

        app, rest = self.app, self.rest

        async def connect(shard_ids: list[int], count: int, seen: "Checkpoint") -> None:
            async with Gateway(app, rest, seen, shard_ids=shard_ids, shard_count=count, **self._options) as client:
                await client.start_up(self._token)

        await Shards(app, self.settings, rest, connect=connect).run()

    async def send(self, reply: "Reply") -> str | None:
        """Post a reply by REST; a reply that was already posted is not posted again."""
        app = self.app
        await self._space_edits(app, reply.live_message_id)
        delivery = await find_delivery_info(app.database, reply.turn_id)
        rows = to_rows(buttons_below(reply, delivery, app.clock.now()))
        try:
            return await send(app, self.rest, reply, limits=self._upload_limits, delivery=delivery, rows=rows)
        except Refused as error:
            notice = to_nonce(app.secrets, reply.place.key, reply.reply_to, "notice", reply.id)
            await notify_asker(
                app,
                reply,
                asker=delivery.asker,
                reason=REASONS.get(error.number),
                channel=reply.place.thread or reply.place.channel,
                send_direct=partial(send_direct, self.rest, f"{notice}-0"),
            )
            raise

    async def show(self, turn: "LiveTurn") -> None:
        """Show an answer as live text."""
        writer = writer_for(self.rest, turn.place, turn.reply_to)
        await show_live(turn, _LiveMessage(self.app, writer, turn, edited=self._edited))

    async def examine(self, settings: "Settings") -> AsyncGenerator[Finding]:  # all is asked of Discord
        """Yield what `parley doctor` reports: token, intents, permissions, commands."""
        from adapters.discord.doctor import examine

        async for finding in examine(self._token):
            yield finding

    async def _space_edits(self, app: "App", message_id: str | None) -> None:
        # The final text is an edit as well: it has to come a second after the previous one.
        last = self._edited.pop(message_id or "", None)
        if last is not None:
            await asyncio.sleep(max(0.0, last + SECONDS_PER_EDIT - app.clock.monotonic()))


class _LiveMessage:
    """The message that shows live text."""

    def __init__(self, app: "App", writer: MessageWriter, turn: "LiveTurn", edited: OrderedDict[str, float]) -> None:
        self._app, self._writer, self._turn, self._edited = app, writer, turn, edited

    async def type(self) -> None:
        """Show the typing indicator."""
        await self._writer.type()

    async def post(self, text: str) -> str:
        """Post the message with the nonce that the final text will use."""
        turn = self._turn
        nonce = nonce_of_turn(self._app.secrets, turn.place, turn.reply_to, turn_id=turn.turn_id)
        message_id = str((await self._writer.write(self._body(text), f"{nonce}-0"))["id"])
        self._note(message_id)
        return message_id

    async def edit(self, message_id: str, text: str) -> None:
        """Edit the message; its button stays, unless the question was deleted."""
        body = self._body(text)
        del body["components"]
        await self._writer.change(message_id, body)
        self._note(message_id)

    def _body(self, text: str) -> Json:
        stop = TurnButtons(self._turn.turn_id, self._turn.asker, self._app.clock.now()).stop()
        rows = to_rows(AnswerButtons((), [stop]))
        return {"content": live(text), "allowed_mentions": {"parse": []}, "components": rows}

    def _note(self, message_id: str) -> None:
        self._edited[message_id] = self._app.clock.monotonic()
        if len(self._edited) > REMEMBERED_EDITS:
            self._edited.popitem(last=False)
