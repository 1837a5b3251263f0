"""The checks of `parley doctor` for Discord: token, intents, permissions on each server, commands."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import discord
from aiohttp import ClientError, TraceConfig
from discord.http import HTTPClient, Route

from adapters.base import Finding
from adapters.discord.interactions.slash import to_payload
from adapters.discord.transport.library import open_http
from adapters.discord.transport.rest import IntentMissing, TokenRefused
from shared.settings import Settings

if TYPE_CHECKING:
    from adapters.discord.platform import DiscordPlatform

# Either flag shows that "Message Content" is switched on; small bots have the limited one.
CONTENT_FLAGS = (1 << 18) | (1 << 19)
NEEDED = ("view_channel", "send_messages", "send_messages_in_threads", "read_message_history", "attach_files")
SERVER_FAULT = 500
USEFUL = ("create_public_threads",)
INVITE = "https://discord.com/oauth2/authorize?client_id={id}&scope=bot+applications.commands&permissions={permissions}"


def wanted_permissions() -> discord.Permissions:
    """Return the permissions that an invitation requests."""
    return discord.Permissions(**dict.fromkeys((*NEEDED, *USEFUL), True))


async def examine(platform: "DiscordPlatform", _program: Settings) -> AsyncGenerator[Finding]:
    """Yield the findings about everything that Discord knows of the platform's bot."""
    http = open_http(TraceConfig())
    try:
        async with aclosing(_examine(http, platform.bot.token)) as findings:
            async for finding in findings:
                yield finding
    except discord.LoginFailure:
        yield Finding("fail", str(TokenRefused()))
    except (discord.HTTPException, ClientError, OSError) as error:
        is_refusal = isinstance(error, discord.HTTPException) and error.status < SERVER_FAULT
        yield Finding("fail", f"Discord can't be reached or refuses: {error}", is_outage=not is_refusal)
    finally:
        await http.close()


async def _examine(http: HTTPClient, token: str) -> AsyncGenerator[Finding]:
    me = await http.static_login(token)
    invite = INVITE.format(id=me["id"], permissions=wanted_permissions().value)
    yield Finding("ok", f"the token is {me['username']}'s (application {me['id']}); {invite} invites it to a server")
    application: Any = await http.request(Route("GET", "/applications/@me"))
    may_read = application.get("flags", 0) & CONTENT_FLAGS
    text = "the text of messages may be read" if may_read else str(IntentMissing())
    yield Finding("ok" if may_read else "fail", f"intents: {text}")
    if application.get("interactions_endpoint_url"):
        yield Finding("fail", "commands go to an Interactions Endpoint URL; clear it in the developer portal")
    guilds: Any = await http.request(Route("GET", "/users/@me/guilds"))
    if not guilds:
        yield Finding("warn", "it is on no server yet; open the link above")
    for guild in guilds:
        has = discord.Permissions(int(guild["permissions"]))
        lacking_permissions = ", ".join(name for name in NEEDED if not getattr(has, name))
        useful_permissions = ", ".join(name for name in USEFUL if not getattr(has, name))
        if has.administrator:
            yield Finding("warn", f"{guild['name']}: it is administrator there, which is more than it needs")
        elif lacking_permissions:
            yield Finding(
                "fail", f"{guild['name']}: it lacks {lacking_permissions}; give them to its role, or: {invite}"
            )
        elif useful_permissions:
            yield Finding("warn", f"{guild['name']}: without {useful_permissions} some things are left out")
        else:
            yield Finding("ok", f"{guild['name']}: all permissions")
    commands: Any = await http.request(Route("GET", "/applications/{application_id}/commands", application_id=me["id"]))
    missing_commands = {command["name"] for command in to_payload()} - {command["name"] for command in commands}
    if missing_commands:
        yield Finding(
            "warn", f"commands: {', '.join(sorted(missing_commands))} are missing; the next start registers them"
        )
    else:
        yield Finding("ok", f"commands: {len(commands)} are registered")
