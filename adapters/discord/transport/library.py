"""discord.py, configured with the addresses in the settings."""

import asyncio
from typing import Any

import discord
from aiohttp import TraceConfig
from discord.gateway import DiscordWebSocket
from discord.http import HTTPClient, Route

from adapters.discord.settings import DiscordSettings

# Message content is a privileged intent, which is switched on in the developer portal.
INTENTS = discord.Intents(guilds=True, guild_messages=True, dm_messages=True, message_content=True)


def redirect(settings: DiscordSettings) -> None:
    """Point the library to another REST API, gateway or file server, if the settings name one."""
    # Voice is not supported; the library would warn that its optional packages are missing.
    discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False
    if settings.api_base:
        Route.BASE = settings.api_base.rstrip("/")
    if settings.gateway:
        # The library has its own URL class.
        DiscordWebSocket.DEFAULT_GATEWAY = type(DiscordWebSocket.DEFAULT_GATEWAY)(settings.gateway)
    if settings.cdn_base:
        discord.Asset.BASE = settings.cdn_base.rstrip("/")


def open_http(trace: TraceConfig) -> HTTPClient:
    """Return the library's REST client, which waits for rate limits and retries after errors of Discord."""
    # A longer wait that Discord asks for is that of the reply, which other processes then know of.
    return HTTPClient(asyncio.get_running_loop(), http_trace=trace, max_ratelimit_timeout=60.0)


def client_options(trace: TraceConfig) -> dict[str, Any]:
    """Return options for a client with small caches that mentions nobody."""
    return {
        "intents": INTENTS,
        "http_trace": trace,
        "max_messages": None,
        "member_cache_flags": discord.MemberCacheFlags.none(),
        "chunk_guilds_at_startup": False,
        "guild_ready_timeout": 0.5,
        "allowed_mentions": discord.AllowedMentions.none(),
    }
