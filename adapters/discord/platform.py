"""Discord as a `ChatPlatform`: processes share the shards, every worker sends and shows live text."""

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from adapters.base import ChatPlatform, Finding
from adapters.chat.live import LIVE_AFTER, show_live
from adapters.discord.events.incoming import PLATFORM
from adapters.discord.sending.live import LiveMessage
from adapters.discord.sending.reply import Sender
from adapters.discord.settings import DiscordSettings
from adapters.discord.transport.library import redirect
from adapters.discord.transport.rest import RateLimiter, Rest
from shared.errors import ConfigurationError, Unavailable

if TYPE_CHECKING:
    from adapters.discord.gateway import Shard
    from agent.app import App
    from agent.live.announcer import LiveTurn
    from agent.queue.outbox import Reply
    from shared.settings import Settings


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
        limiter = RateLimiter(app.database, self._token, self.settings.requests_per_second)
        self._sender = Sender(app, Rest(self._token, limiter))

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
                await client.start_up(self._token)

        await Shards(app, self.settings, rest, connect=connect).run()

    async def send(self, reply: "Reply") -> str | None:
        """Post a reply by REST; a reply that was already posted is not posted again."""
        return await self.sender.send(reply)

    async def show(self, turn: "LiveTurn") -> None:
        """Show an answer as live text, unless it is complete before."""
        if not await turn.ends_within(LIVE_AFTER):
            await show_live(turn, LiveMessage(self.sender, turn), after=0)

    async def examine(self, settings: "Settings") -> AsyncGenerator[Finding]:  # all is asked of Discord
        """Yield what `parley doctor` reports: token, intents, permissions, commands."""
        from adapters.discord.doctor import examine

        async for finding in examine(self._token):
            yield finding
