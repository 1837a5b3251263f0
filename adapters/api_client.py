"""A small HTTP client for platforms without a library: JSON, repeated where that makes sense, with our errors."""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar, NamedTuple
from urllib.parse import quote

import aiohttp
from pydantic import SecretStr

from adapters.base import Refused
from shared.errors import Unavailable, Undeliverable
from shared.log import get_logger

Json = dict[str, Any]
Check = Callable[[], Awaitable[None]]
CALL_SECONDS, TOO_MUCH, TOO_MANY, SERVER_FAULT = 30.0, 413, 429, 500
# How long one call waits because the platform asks for it, and after how many seconds it is repeated.
PATIENCE, PAUSES = 60.0, (0.5, 2.0)
LONGEST_PAUSE, CONNECT_SECONDS, CHUNK = 3600.0, 10.0, 64 * 1024
MOST_READ = 50

# Whose address is this machine's own needs no https.
OPEN = re.compile(r"http://(?!(?:localhost|127(?:\.\d+){3}|\[::1\])(?::\d+)?(?:/|$))", re.IGNORECASE)

DECODER, BLANKS = json.JSONDecoder(), re.compile(r"\s*")

log = get_logger()


class File(NamedTuple):
    """A body that is no JSON."""

    content: bytes
    mime_type: str


class TooLarge(Undeliverable):
    """A request that is larger than the platform, or a proxy before it, takes."""


class AnswerTooLarge(Unavailable):
    """An answer of which more came than is read of one, its field `text`: whoever can, asks for less."""


class ApiClient:
    """Requests with the same token to one platform, which errors call by its `title`; paths begin at its `root`."""

    title: ClassVar[str]
    root: ClassVar[str]
    # The fields of its answers: of a refusal the code and the reason, of one that asks to wait the milliseconds.
    code_field: ClassVar[str]
    reason_field: ClassVar[str]
    wait_field: ClassVar[str]
    # Of one answer.
    most_bytes = 64 * 1024 * 1024

    def __init__(self, address: str, token: SecretStr | None = None) -> None:
        self.address = address.rstrip("/")
        self.headers = {} if token is None else {"Authorization": f"Bearer {token.get_secret_value()}"}
        self._session: aiohttp.ClientSession | None = None
        self._reading = asyncio.Semaphore(MOST_READ)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    @property
    def is_exposed(self) -> bool:
        """Return whether others on the way read token and answers."""
        return OPEN.match(self.address) is not None

    def find_pause(self, answer: Json) -> float:
        """Return how many seconds the platform asks to wait."""
        wait = answer.get(self.wait_field)
        return wait / 1000 if isinstance(wait, int) and wait > 0 else 1.0

    async def call(
        self,
        method: str,
        path: Sequence[str],
        body: Any = None,
        *,
        root: str = "",
        check: Check | None = None,
        seconds: float = CALL_SECONDS,
        **query: object,
    ) -> Json:
        """Return the answer to a request, whose body is JSON or a `File`; `check` is awaited just before each attempt.

        Only what may be done twice may be asked for. A name in the path leads to no other path, whoever has written it.
        Raises `Unavailable` where a retry makes sense, else `Refused`. An answer that is no JSON is that of a proxy:
        the platform does not answer, unless the proxy says that the request is too large.
        """
        url = self.address + "/".join((root or self.root, *(quote(name, safe="") for name in path)))
        content: Json = {"params": {key: str(query[key]) for key in query}}
        is_file = isinstance(body, File)
        content |= {"data": body.content, "headers": {"Content-Type": body.mime_type}} if is_file else {"json": body}
        waited, pauses = 0.0, list(PAUSES)
        while True:
            if check is not None:
                await check()
            status, answer = await self._try(method, url, content, seconds=seconds)
            if status < 400:
                return answer
            if status == TOO_MUCH:
                raise TooLarge(f"{self.title} takes no request of that size.")
            if status == TOO_MANY:
                pause = min(self.find_pause(answer), LONGEST_PAUSE)
                if waited + pause > PATIENCE:
                    raise Unavailable(f"{self.title} wants to be left alone.", retry_after=pause)
            elif status < SERVER_FAULT:
                code = str(answer.get(self.code_field))
                reason = str(answer.get(self.reason_field)).rstrip(".")
                raise Refused(code, f"{reason} ({code})")
            elif not pauses:
                raise Unavailable(f"{self.title} does not answer: {answer.get('error')}")
            else:
                pause = pauses.pop(0)
            waited += pause
            await asyncio.sleep(pause)

    async def call_for(self, seconds: float, *request: Any, **options: Any) -> Json:
        """Return the answer to a request as `call` does, asked for so many seconds while the server has a fault."""
        end = time.monotonic() + seconds
        while True:
            try:
                return await self.call(*request, **options)
            except Unavailable as error:
                pause = max(error.retry_after or 0.0, PAUSES[-1])
                if time.monotonic() + pause > end:
                    raise
            await asyncio.sleep(pause)

    async def read(self, path: Sequence[str], *, patience: float = 0.0, **query: object) -> Json:
        """Return what the platform has, asked for in so many seconds while it has a fault.

        Only so many wait at once: what is slow to read keeps no other request from being made.
        """
        async with self._reading:
            return await self.call_for(patience, "GET", path, **query)

    async def find(self, path: Sequence[str], *, patience: float = 0.0) -> Json:
        """Return what the platform has; an empty object if it has none, or gives it to nobody now, as the log says."""
        try:
            return await self.read(path, patience=patience)
        except Refused:
            return {}
        except Unavailable as error:
            log.warning("not_read", path="/".join(path), cause=str(error))
            return {}

    async def _try(self, method: str, url: str, content: Json, *, seconds: float) -> tuple[int, Json]:
        if self._session is None:
            # How many go on at once is bounded where they are made: among many that last, none waits for a connection.
            connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(headers=self.headers, connector=connector)
        # Elsewhere the token must not go.
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)
        options: Json = {"timeout": timeout, "allow_redirects": False}
        try:
            async with self._session.request(method, url, **content, **options) as response:
                if response.status == TOO_MUCH:
                    return TOO_MUCH, {}
                if 300 <= response.status < 400:
                    return SERVER_FAULT, {"error": f"it redirects ({response.status})"}
                text = await self._read(response)
                try:
                    answer = json.loads(text)
                except (ValueError, RecursionError):
                    return SERVER_FAULT, {"error": f"what comes from {self.address} is no JSON ({response.status})"}
                return response.status, answer if isinstance(answer, dict) else {}
        except aiohttp.InvalidURL as error:
            raise Undeliverable(f"{self.address} is no address; one begins with https://.") from error
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            return SERVER_FAULT, {"error": f"{type(error).__name__}: {error}"}

    async def _read(self, response: aiohttp.ClientResponse) -> bytearray:
        text = bytearray()
        async for chunk in response.content.iter_chunked(CHUNK):
            text += chunk
            if len(text) > self.most_bytes:
                raise AnswerTooLarge(f"{self.title} answers with more than {self.most_bytes} bytes.", text=text)
        return text


def part(value: Any, *names: str) -> Json:
    """Return an object inside of what somebody sent; an empty one if it is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def skip_blanks(text: str, at: int) -> int:
    """Return where what is no blank begins."""
    return len(text) if (blanks := BLANKS.match(text, at)) is None else blanks.end()


def list_names(text: str, *outer: str) -> list[str]:
    """Return the names in an object inside of JSON of which only the beginning is there, whatever values hold."""
    names, way, at = list[str](), list(outer), 0
    with suppress(ValueError, IndexError, RecursionError):
        while text[at] in "{,":
            name, at = DECODER.raw_decode(text, skip_blanks(text, at + 1))
            at = skip_blanks(text, skip_blanks(text, at) + len(":"))
            if [name] == way[:1]:
                del way[0]
                continue
            if not way:
                names.append(name)
            _, at = DECODER.raw_decode(text, at)
            at = skip_blanks(text, at)
    return names


def objects(value: Any, *names: str) -> list[Json]:
    """Return the objects of a list inside of what somebody sent; none if it is no list."""
    *outer, last = names
    inner = part(value, *outer).get(last)
    return [item for item in inner if isinstance(item, dict)] if isinstance(inner, list) else []
