"""REST calls to Discord, and their rate limit; errors are classified by whether a retry makes sense.

Discord allows 50 requests a second for one token. All processes share the limit, which is kept in Postgres: each
request reserves the next free slot and waits for it.
"""

import asyncio
import io
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import aiohttp
import discord
from aiohttp import TraceConfig
from discord.http import HTTPClient, Route
from msgspec import Struct
from sqlalchemy import TextClause
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_exponential

from adapters import base
from adapters.base import BotAccount
from adapters.chat.parts import Upload
from adapters.discord.bots import Bot
from adapters.discord.transport.library import open_http
from shared.db.database import Database, DatabaseLost
from shared.db.statements import load_statements
from shared.errors import Unavailable, Undeliverable
from shared.log import get_logger

statements = load_statements(__file__)

Json = dict[str, Any]
Result = TypeVar("Result")
# Awaited just before each request, its repetitions included; it raises to stop them.
Check = Callable[[], Awaitable[None]]
# A request waits for its slot; or takes one without waiting, because interactions must be answered within 3 s; or has
# reserved one already.
Pace = Literal["waits", "hurries", "paid"]

# Seconds for which a call is repeated after a broken connection, and seconds after which one try counts as broken.
# Two tries are over in less than the 30 seconds in which a question is answered. Uploads may take longer.
CALL_SECONDS, TRY_SECONDS, UPLOAD_SECONDS = 20.0, 10.0, 120.0

UNKNOWN_CHANNEL, UNKNOWN_MESSAGE, UNKNOWN_WEBHOOK, MISSING_ACCESS, MISSING_PERMISSIONS = (
    10003,
    10008,
    10015,
    50001,
    50013,
)
THREAD_EXISTS, CANNOT_READ_HISTORY, TOO_LARGE = 160004, 160002, 40005
GONE = frozenset({UNKNOWN_MESSAGE, UNKNOWN_WEBHOOK, 50027})
UNKNOWN_INTERACTION = 10062
TOKEN_REFUSED = "Discord refuses the token; make a new one in the developer portal and set DISCORD_TOKEN."  # noqa: S105  # a sentence, not a token

# Requests a second, and for how long they may begin ahead of their slots: 44 in any second, where Discord allows 50.
RATE, BURST_SECONDS = 40.0, 0.1
# No request waits longer for its slot.
LONGEST_SECONDS = 120
# Before a request in the background it is looked so many times, at this distance, whether others wait for a slot.
LOOK_SECONDS, MOST_LOOKS = 0.05, 100
# Discord bans clients that make 10,000 invalid requests in ten minutes.
INVALID_LOGGED_EVERY = 100


log = get_logger()


class Manner(Struct, frozen=True):
    """How the requests of one call are sent.

    `is_repeated`: the library repeats a request after errors of Discord, which may have acted all the same.
    """

    pace: Pace = "waits"
    check: Check | None = None
    is_repeated: bool = True


USUAL = Manner()


class RateLimiter:
    """The slots of one token, `rate` a second for all processes together."""

    def __init__(self, database: Database, token: str, rate: float = RATE) -> None:
        self._database, self._spacing = database, 1 / rate
        self.bot = BotAccount(database, "discord", token)
        self._parameters: Json = {}
        self._invalid = 0

    async def wait(self, pace: Pace = "waits") -> None:
        """Reserve the next slot and wait for it."""
        if pace == "paid":
            return
        try:
            seconds = float((await self._run(statements.reserve_slot))[0]) - BURST_SECONDS
        except DatabaseLost:
            # Without the database the limit can't be shared; one process alone stays far below it.
            seconds = 1 / 10
        if seconds > 0 and pace != "hurries":
            await asyncio.sleep(seconds)

    async def wait_for_lull(self) -> None:
        """Wait until no request waits for a slot, but not for ever: before each request in the background."""
        for _ in range(MOST_LOOKS):
            await asyncio.sleep(LOOK_SECONDS)
            if await self.is_free():
                return

    async def is_free(self) -> bool:
        """Return whether the next request would get a slot at once."""
        try:
            return bool((await self._run(statements.is_free))[0])
        except DatabaseLost:
            return False

    async def has_spare(self) -> bool:
        """Reserve a slot only if no request waits for one: for optional requests."""
        try:
            return await self._run(statements.reserve_free_slot) is not None
        except DatabaseLost:
            return False

    async def _run(self, statement: TextClause) -> Any:
        if not self._parameters:
            self._parameters = {
                "bot_id": await self.bot.find_id(),
                "spacing": self._spacing,
                "longest": LONGEST_SECONDS,
            }
        async with self._database.statement() as session:
            return (await session.execute(statement, self._parameters)).one_or_none()

    def trace(self) -> TraceConfig:
        """Return the trace hooks that count and delay each request of the library, its retries included.

        The library has no place of its own for that. The manner of a call reaches them as aiohttp's
        `trace_request_ctx`, an argument that `Rest.call` passes through the library; calls of its objects have none.
        """
        trace = TraceConfig()
        trace.on_request_start.append(self._on_start)
        trace.on_request_end.append(self._on_end)
        return trace

    async def _on_start(self, _session: object, context: Any, params: Any) -> None:
        manner: Manner = context.trace_request_ctx or USUAL
        if params.url.scheme in ("http", "https"):
            await self.wait(manner.pace)
        if manner.check is not None:
            await manner.check()

    async def _on_end(self, _session: object, context: Any, params: Any) -> None:
        manner: Manner = context.trace_request_ctx or USUAL
        if params.response.status >= 500 and not manner.is_repeated:
            # Only an error that the library does not know ends its tries.
            params.response.close()
            raise Unavailable("Discord can't take this just now.")
        if params.response.status not in (401, 403, 429):
            return
        self._invalid += 1
        if self._invalid % INVALID_LOGGED_EVERY == 1:
            log.warning("discord_invalid_requests", count=self._invalid, status=params.response.status)


class Refused(base.Refused):
    """Discord refuses this: {reason}."""


class TokenRefused(Undeliverable):
    """Discord refuses the token; make a new one in the developer portal and set DISCORD_TOKEN."""


class IntentMissing(Undeliverable):
    """Discord does not show the text of messages; switch on "Message Content Intent" for the bot in the portal."""


class Rest:
    """The library's REST client with the shared rate limit; it logs in with the first call."""

    def __init__(self, bot: Bot, rate_limiter: RateLimiter) -> None:
        self.bot, self.rate_limiter = bot, rate_limiter
        self._http: HTTPClient | None = None
        self._me: Json = {}
        self._logging_in = asyncio.Lock()
        self._is_closed = False

    async def me(self) -> Json:
        """Return the bot's user."""
        await self._open()
        return self._me

    async def aclose(self) -> None:
        """Close the connections."""
        self._is_closed = True
        async with self._logging_in:
            if self._http is not None:
                await self._http.close()
                self._http = None

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        files: Sequence[Upload] = (),
        query: Mapping[str, str] | None = None,
        manner: Manner = USUAL,
        **ids: str,
    ) -> Any:
        """Make one call; `{name}` in the path stands for an id.

        Raises `Refused` if a retry makes no sense, `Unavailable` if it does.
        """
        http = await self._open()
        route = Route(method, path, **ids)
        options: Json = {"trace_request_ctx": manner} | ({"params": dict(query)} if query else {})
        if files:
            uploads = [discord.File(io.BytesIO(file.content), file.filename) for file in files]
            # Only the files that this list names are in the message afterwards; a repeated edit replaces them.
            attachments = [{"id": index, "filename": upload.filename} for index, upload in enumerate(uploads)]
            message = body | {"attachments": attachments}
            form: list[Json] = [{"name": "payload_json", "value": json.dumps(message)}]
            for index, upload in enumerate(uploads):
                kind = "application/octet-stream"
                form.append(
                    {"name": f"files[{index}]", "value": upload.fp, "filename": upload.filename, "content_type": kind}
                )
            options |= {"form": form, "files": uploads}
        elif body is not None:
            options["json"] = body
        return await as_our_errors(http.request(route, **options))

    async def open_direct(self, user_id: str) -> str:
        """Return the id of the direct message channel with a person."""
        channel = await self.call("POST", "/users/@me/channels", {"recipient_id": user_id})
        return str(channel["id"])

    async def type(self, channel_id: str) -> None:
        """Show the typing indicator, unless other requests are waiting."""
        if await self.rate_limiter.has_spare():
            manner = Manner(pace="paid")
            await self.call("POST", "/channels/{channel_id}/typing", manner=manner, channel_id=channel_id)

    async def _open(self) -> HTTPClient:
        async with self._logging_in:
            if self._is_closed:
                raise Unavailable("The connections to Discord are closed.")
            if self._http is not None:
                return self._http
            http = open_http(self.rate_limiter.trace())
            try:
                self._me = dict(await as_our_errors(http.static_login(self.bot.token)))
                self._http = http
            finally:
                if self._http is None:
                    await http.close()
            return http


async def insist(
    call: Callable[[], Awaitable[Result]], seconds: float = CALL_SECONDS, *, try_seconds: float | None = None
) -> Result:
    """Make a call through an object of the library; after a broken connection it is repeated for this many seconds.

    `try_seconds`: how long one try may take, by default TRY_SECONDS. The library repeats a call only after errors of
    Discord. Raises `Refused` or `Unavailable`.
    """

    async def bounded() -> Result:
        async with asyncio.timeout(try_seconds or min(TRY_SECONDS, seconds)):
            return await call()

    async def attempt() -> Result:
        return await as_our_errors(bounded())

    retrying = AsyncRetrying(
        retry=retry_if_exception_type(Unavailable),
        wait=wait_exponential(multiplier=0.25, max=4),
        stop=stop_after_delay(seconds),
        reraise=True,
    )
    return await retrying(attempt)


async def as_our_errors(request: Awaitable[Result]) -> Result:
    """Await a call of the library and replace its errors by ours."""
    try:
        return await request
    except discord.LoginFailure as error:
        raise TokenRefused from error
    except discord.RateLimited as error:
        raise Unavailable("Discord asks to wait.", retry_after=error.retry_after) from error
    except discord.DiscordServerError as error:
        raise Unavailable("Discord can't accept this just now.") from error
    except discord.HTTPException as error:
        if error.status == 401 and error.code not in GONE:
            log.error("discord_token_refused", remedy=TOKEN_REFUSED)
            raise Unavailable("Discord refuses the token.") from error
        if error.status == 429:
            try:
                seconds = float(error.response.headers.get("Retry-After", 0))
            except ValueError:
                seconds = 0.0
            raise Unavailable("Discord asks to wait.", retry_after=seconds) from error
        # A proxy in front of Discord also refuses a large body, without Discord's error code.
        number = TOO_LARGE if error.status == 413 else error.code
        raise Refused(number, f"{error.status} {error.text or error.code}") from error
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise Unavailable("Discord can't be reached just now.") from error
