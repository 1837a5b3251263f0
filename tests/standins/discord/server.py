"""The stand-in itself: one HTTP server for gateway, REST and files, and the journal of requests."""

import asyncio
import json
import time
from base64 import b64encode
from collections import deque
from copy import copy
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import unquote

from aiohttp import BodyPartReader, web

from tests.standins.discord import interactions
from tests.standins.discord.gateway import Gateway
from tests.standins.discord.limits import Limits, too_many
from tests.standins.discord.rest import ROUTES, Answer, Call
from tests.standins.discord.rules import BY_BOOST_TIER, MEGABYTE, MOST_REQUEST, Refused
from tests.standins.discord.world import EPHEMERAL, Json, World, snowflake
from tests.standins.stand_in import ChatStandIn

API, CDN = "/api/v10", "/cdn"
NONCE_SECONDS = 300
CUT, SILENCE = 0, -1


@dataclass(frozen=True)
class Sent:
    """One REST request of the bot."""

    at: float
    method: str
    path: str
    body: Any
    files: tuple[str, ...]
    status: int
    code: int | None = None


@dataclass
class Fault:
    """A fault of the next `times` matching requests; with `after` the request takes effect all the same.

    With the status `CUT` the connection is cut instead of an answer, with `SILENCE` there is none.
    """

    method: str
    path: str
    status: int
    times: int = 1
    after: bool = False
    retry_after: float = 0.05
    is_global: bool = False
    code: int = 0

    def matches(self, method: str, path: str) -> bool:
        return self.times > 0 and self.method == method and self.path in path


class DiscordStandIn(ChatStandIn):
    """Discord on loopback, open as long as its `async with` block."""

    def __init__(self, token: str | None = None, *, port: int = 0, limits: Limits | None = None) -> None:
        super().__init__(web.Server(self._serve, request_factory=_Request, access_log=None), port)
        self.world = World()
        self.token = token or to_token(self.world.bot)
        self.gateway = Gateway(self.world, self.token)
        # By token; each is this stand-in as one bot sees it.
        self.bots: dict[str, DiscordStandIn] = {self.token: self}
        self.limits = limits or Limits(per_route=20)
        self.shards = 1
        self.sessions_left = 999
        self.journal: deque[Sent] = deque(maxlen=20_000)
        self.faults: list[Fault] = []
        self.commands: list[Json] = []
        self.interactions: dict[str, interactions.Interaction] = {}
        self.file_limit = 10 * MEGABYTE
        self.made_at: dict[str, float] = {}
        self._nonces: dict[str, tuple[float, Json]] = {}
        self._end = asyncio.Event()

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.gateway.url = f"ws{self.base.removeprefix('http')}/gateway"
        return self

    def add_bot(self, name: str) -> "DiscordStandIn":
        """Return the same Discord as another bot sees it, with the token, the limits and the commands of its own."""
        other = copy(self)
        other.world = self.world.seen_by(self.world.add_person(name, bot=True))
        other.token = to_token(other.world.bot)
        other.limits, other.commands, other._nonces = Limits(per_route=20), [], {}
        self.bots[other.token], self.gateway.worlds[other.token] = other, other.world
        return other

    async def revoke(self) -> None:
        """Accept the bot's token no more, and end its sessions."""
        del self.bots[self.token], self.gateway.worlds[self.token]
        await self.gateway.drop_all(4004, self.world)

    async def close(self) -> None:
        self._end.set()
        await self.gateway.drop_all(1001)

    @property
    def api_base(self) -> str:
        """Return what `DISCORD_API_BASE` is set to."""
        return f"{self.base}{API}"

    @property
    def cdn_base(self) -> str:
        """Return what `DISCORD_CDN_BASE` is set to."""
        return f"{self.base}{CDN}"

    @property
    def bot_user_id(self) -> str:
        return str(self.world.bot["id"])

    def environment(self) -> dict[str, str]:
        """Return the settings of a process that talks to it."""
        return {
            "DISCORD_TOKEN": self.token,
            "DISCORD_API_BASE": self.api_base,
            "DISCORD_GATEWAY": self.gateway.url,
            "DISCORD_CDN_BASE": self.cdn_base,
            # A little longer, because two requests take different times.
            "DISCORD_SESSION_SECONDS": str(self.gateway.identify_seconds * 1.5),
        }

    def sent(self, method: str = "", path: str = "") -> list[Sent]:
        """Return the requests of the journal with this method and this text in their path."""
        return [request for request in self.journal if request.method.startswith(method) and path in request.path]

    @property
    def refusals(self) -> list[Sent]:
        """Return the requests that were refused for other reasons than rate limits."""
        return [request for request in self.journal if 400 <= request.status < 500 and request.status != 429]

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        path = unquote(request.path)
        if path.startswith("/gateway"):
            return await self.gateway.serve(request)
        if path.startswith(CDN):
            content = self.world.files.get(path.removeprefix(CDN))
            return web.Response(status=404) if content is None else web.Response(body=content)
        if not path.startswith(API):
            return web.json_response({"message": "404: Not Found", "code": 0}, status=404)
        return await self._answer(request, path.removeprefix(API))

    async def _answer(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        at = time.monotonic()
        body, files = await _read(request)
        headers, status, answer = await self._decide(request, path, body, files)
        code = answer.get("code") if isinstance(answer, dict) else None
        names = tuple(name for _, name, _ in files)
        self.journal.append(Sent(at, request.method, path, body, names, status, code))
        await self.tell()
        if self.latency:
            await asyncio.sleep(self.latency)
        if status == SILENCE:
            # One that nobody holds would be collected with its task when the caller hangs up.
            await self._end.wait()
            status = CUT
        if status == CUT and request.transport is not None:
            request.transport.abort()
        if answer is None and 200 <= status < 300:
            return web.Response(status=204, headers=headers)
        # The library parses only responses of exactly this type as JSON.
        text = json.dumps(answer).encode()
        return web.Response(body=text, status=status or 500, headers=headers | {"Content-Type": "application/json"})

    async def _decide(
        self, request: web.BaseRequest, path: str, body: Any, files: list[tuple[str, str, bytes]]
    ) -> tuple[dict[str, str], int, Any]:
        is_exempt = path.startswith(("/interactions/", "/webhooks/"))
        bot = self._find_by_path(path) if is_exempt else self._find_by_token(request)
        if bot is None:
            return {}, 401, {"message": "401: Unauthorized", "code": 0}
        endpoint = _find(request.method, path)
        if endpoint is None:
            return {}, 404, {"message": "404: Not Found", "code": 0}
        pattern, ids, answer = endpoint
        method = request.method
        major = "/".join(path.split("/")[1:3])
        headers, refusal = bot.limits.take(f"{method}:{pattern} {major}", is_exempt=is_exempt)
        if refusal is not None:
            return headers, 429, refusal
        fault = next((fault for fault in self.faults if fault.matches(method, path)), None)
        if fault is not None:
            fault.times -= 1
            if not fault.after:
                return _broken(fault, headers)
        try:
            result = await answer(Call(bot, ids, dict(request.query), body, files))
        except Refused as error:
            return headers, error.status, error.body()
        return _broken(fault, headers) if fault is not None else (headers, 200, result)

    def _find_by_token(self, request: web.BaseRequest) -> "DiscordStandIn | None":
        return next(
            (bot for bot in self.bots.values() if request.headers.get("Authorization") == f"Bot {bot.token}"), None
        )

    def _find_by_path(self, path: str) -> "DiscordStandIn":
        """Return the bot whose interaction or webhook a path names; any for one that nobody has."""
        _, _, first, token, *_ = [*path.split("/"), ""]
        interaction = self.interactions.get(token)
        application = first if interaction is None else interaction.payload["application_id"]
        return next((bot for bot in self.bots.values() if bot.bot_user_id == application), self)

    def find_nonce(self, body: Json) -> Json | None:
        """Return the recent message of the bot with this nonce, in any channel, when the nonce is enforced."""
        moment, message = self._nonces.get(str(body.get("nonce")), (0.0, None))
        is_recent = time.monotonic() - moment < NONCE_SECONDS
        return message if body.get("enforce_nonce") and body.get("nonce") and is_recent else None

    def remember_nonce(self, body: Json, message: Json) -> None:
        if body.get("nonce"):
            self._nonces[str(body["nonce"])] = (time.monotonic(), message)

    def forget_nonces(self) -> None:
        """Forget the nonces, as Discord does after some minutes."""
        self._nonces.clear()

    def keep_files(self, channel_id: str, files: list[tuple[str, str, bytes]]) -> list[Json]:
        """Store files and return them as attachments."""
        attachments = []
        guild = self.world.guilds.get(self.world.channels[channel_id].get("guild_id", ""), {})
        limit = BY_BOOST_TIER.get(guild.get("premium_tier", 0), self.file_limit)
        sizes = [len(content) for _, _, content in files]
        if max(sizes, default=0) > limit or sum(sizes) > max(limit, MOST_REQUEST):
            raise Refused(413, 40005, "Request entity too large")
        for _, name, content in files:
            file_id = snowflake()
            path = f"/attachments/{channel_id}/{file_id}/{name}"
            self.world.files[path] = content
            attachments.append(
                {
                    "id": file_id,
                    "filename": name,
                    "size": len(content),
                    "url": f"{self.cdn_base}{path}",
                    "proxy_url": f"{self.cdn_base}{path}",
                }
            )
        return attachments

    async def tell_message(self, name: str, message: Json) -> None:
        """Dispatch a message, unless it is ephemeral."""
        self.made_at.setdefault(message["id"], time.monotonic())
        if message.get("flags", 0) & EPHEMERAL:
            return
        channel = self.world.channels[message["channel_id"]]
        guild_id, extra = channel.get("guild_id"), {}
        if guild_id is not None:
            extra = {"guild_id": guild_id}
            if (member := self.world.members.get((guild_id, message["author"]["id"]))) is not None:
                extra["member"] = member
        await self.gateway.dispatch(name, message | extra, guild_id, self.gateway.message_intent(channel))
        await self.tell()

    async def forget_message(self, channel: Json, message: Json) -> None:
        self.world.messages[channel["id"]].pop(message["id"], None)
        guild_id = channel.get("guild_id")
        event = {"id": message["id"], "channel_id": channel["id"]} | ({"guild_id": guild_id} if guild_id else {})
        await self.gateway.dispatch("MESSAGE_DELETE", event, guild_id, self.gateway.message_intent(channel))
        await self.tell()

    async def forget_messages(self, channel: Json, messages: list[Json]) -> None:
        """Delete many messages of a server at once, as its moderators do."""
        ids = [str(message["id"]) for message in messages]
        for message_id in ids:
            self.world.messages[channel["id"]].pop(message_id, None)
        event = {"ids": ids, "channel_id": channel["id"], "guild_id": channel["guild_id"]}
        intent = self.gateway.message_intent(channel)
        await self.gateway.dispatch("MESSAGE_DELETE_BULK", event, channel["guild_id"], intent)
        await self.tell()


class _Request(web.BaseRequest):
    # The rules refuse what is too large.
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments, asyncio.get_running_loop())  # type: ignore[arg-type,call-arg]  # as aiohttp calls it
        self._client_max_size = 200 * MEGABYTE


def to_token(bot: Json) -> str:
    """Return a bot's token, which begins with its id as Discord's do."""
    return f"{b64encode(bot['id'].encode()).decode().rstrip('=')}.{bot['username']}.secret"


def _find(method: str, path: str) -> tuple[str, tuple[str, ...], Answer] | None:
    for registered, pattern, answer in ROUTES:
        match = pattern.match(path)
        if registered == method and match is not None:
            return pattern.pattern, match.groups(), answer
    return None


def _broken(fault: Fault, limits: dict[str, str]) -> tuple[dict[str, str], int, Any]:
    if fault.status == 429:
        headers, body = too_many(fault.retry_after, is_global=fault.is_global)
        return headers if fault.is_global else limits | headers, 429, body
    return {}, fault.status, {"message": "The stand-in was told to fail.", "code": fault.code}


async def _read(request: web.BaseRequest) -> tuple[Any, list[tuple[str, str, bytes]]]:
    """Return the JSON body, and the files of a multipart one."""
    if not request.content_type.startswith("multipart/"):
        raw = await request.content.read()
        return (json.loads(raw) if raw else None), []
    body: Any = None
    files: list[tuple[str, str, bytes]] = []
    async for part in await request.multipart():
        if not isinstance(part, BodyPartReader):
            continue
        content = bytes(await part.read())
        if part.name == "payload_json":
            body = json.loads(content)
        else:
            files.append((part.name or "", part.filename or "file", content))
    return body, files
