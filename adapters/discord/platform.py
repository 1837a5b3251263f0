"""Discord as a `ChatPlatform`: processes share the shards, every worker sends and shows live text."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from adapters.base import DirectPlatform, key_of
from adapters.chat.live import LIVE_AFTER, show_live
from adapters.discord.events.incoming import PLATFORM
from adapters.discord.sending.live import LiveMessage
from adapters.discord.sending.reply import ChannelWriter, Sender, to_nonce
from adapters.discord.sending.response_writer import INTERACTION, WHISPER
from adapters.discord.settings import DiscordSettings
from adapters.discord.transport.library import redirect
from adapters.discord.transport.rest import (
    MISSING_ACCESS,
    MISSING_PERMISSIONS,
    UNKNOWN_CHANNEL,
    RateLimiter,
    Rest,
)
from agent.queue.outbox import DIRECT
from shared.errors import ConfigurationError, Unavailable
from shared.messages import Place

if TYPE_CHECKING:
    from adapters.discord.gateway import Shard
    from agent.app import App
    from agent.live.announcer import LiveTurn
    from agent.queue.outbox import Reply


class DiscordPlatform(DirectPlatform):
    """Discord as one bot."""

    name = PLATFORM
    settings: DiscordSettings
    reasons: ClassVar[Mapping[str | int, str]] = {
        UNKNOWN_CHANNEL: "the channel is gone",
        MISSING_ACCESS: "I can't see the channel; somebody who manages the server can let me in",
        MISSING_PERMISSIONS: "I may not write there; somebody who manages the server can give me the permission",
    }

    def __init__(self, settings: DiscordSettings, adapter: str = PLATFORM, **options: Any) -> None:
        """Be the bot with this adapter; `options` are passed to the library's client."""
        super().__init__(settings, adapter)
        bot = next((bot for bot in settings.bots if bot.adapter == adapter), None)
        if bot is None:
            raise ConfigurationError("DISCORD_TOKEN is not set; docs/discord.md says where to get one.")
        redirect(settings)
        self.bot, self.adapters, self._options = bot, bot.adapters, options
        self._sender: Sender | None = None

    @property
    def sender(self) -> Sender:
        """Return what posts replies; raises `Unavailable` while the platform is not open."""
        if self._sender is None:
            raise Unavailable("Discord is not open in this process.")
        return self._sender

    async def open(self, app: "App") -> None:
        """Create the clients and limits from the app's collaborators; no request is sent yet."""
        await super().open(app)
        limiter = RateLimiter(app.database, self.bot.token, self.settings.requests_per_second)
        self._sender = Sender(app, Rest(self.bot, limiter))

    async def aclose(self) -> None:
        """Close the connections."""
        if self._sender is not None:
            await self._sender.rest.aclose()
            self._sender = None
        await super().aclose()

    async def receive(self) -> None:
        """Hold gateway connections for the shards that this process gets, until they are lost."""
        # Imported here because a worker needs no gateway.
        from adapters.discord.gateway import Gateway
        from adapters.discord.shards import Shards

        app, rest = self.app, self.sender.rest

        async def connect(shard: "Shard") -> None:
            async with Gateway(app, rest, shard, cells=self.cells, **self._options) as client:
                await client.start_up(self.bot.token)

        await Shards(app, self.settings, rest, connect=connect).run()

    async def send(self, reply: "Reply") -> str | None:
        """Post a reply once; to a command in its response, also what one alone may see: an edit is made once."""
        account, _, response = (reply.reply_to or "").removeprefix(DIRECT).rpartition(" ")
        if account and response.startswith(f"{INTERACTION}:"):
            delivery = replace(reply.delivery, asker=account)
            reply = replace(reply, reply_to=response.replace(INTERACTION, WHISPER, 1), delivery=delivery)
        return await super().send(reply)

    async def post_reply(self, reply: "Reply", key: str) -> str:
        """Post a reply by REST."""
        return await self.sender.post(reply, to_nonce(key))

    async def withdraw(self, reply: "Reply", key: str) -> None:
        """Remove the live message."""
        await self.sender.withdraw(reply)

    async def open_direct(self, account: str, server: str | None = None) -> str:
        """Return the channel of the direct messages with a person."""
        return await self.sender.rest.open_direct(account)

    async def post_notice(self, place: Place, text: str, key: str) -> None:
        """Post a sentence."""
        await ChannelWriter(self.sender.rest, place, None).write({"content": text}, to_nonce(key))

    def mention_place(self, place: Place) -> str:
        """Return how a text mentions a channel or a thread."""
        return f"<#{place.thread or place.channel}>"

    async def show(self, turn: "LiveTurn") -> None:
        """Show an answer as live text, unless it is complete before."""
        if not await turn.ends_within(LIVE_AFTER):
            await show_live(turn, LiveMessage(self.sender, turn, to_nonce(key_of(self.app.secrets, turn))), after=0)
