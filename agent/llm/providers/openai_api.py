"""Our client for OpenAI's protocol, which most servers of models speak: chat completions, whole and streamed."""

import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import certifi
from pydantic import BaseModel, ConfigDict, ValidationError

from agent.llm.completions import ToolCall, to_tool_calls
from agent.llm.providers.streaming import STREAM_FAULTS
from shared.messages import Usage
from shared.settings import OPENAI_URL
from shared.text import clean

if TYPE_CHECKING:
    import aiohttp

CHAT = "/chat/completions"
CONNECT_SECONDS = 10.0
# An idle connection is kept for so long, shorter than servers and proxies usually do.
KEEP_SECONDS = 50.0
MOST_BYTES = 32_000_000
# One line of a stream may hold a whole answer.
MOST_LINE_BYTES = 8_000_000
# The largest count that the ledger can store; a higher one is not credible and is ignored.
MOST_TOKENS = 2**31 - 1
# The tokens of a prompt that came from a cache, as some servers name them.
CACHED_NAMES = ("prompt_cache_hit_tokens", "cache_read_input_tokens", "cached_tokens")


class ServerError(Exception):
    """The server answered with an error, or with something that is no answer (then `status_code` is 200)."""

    def __init__(self, status_code: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        self.status_code, self.headers = status_code, headers or {}
        super().__init__(message)


class _Model(BaseModel):
    # Built with the first answer: who asks beside a worker, or has no model yet, reads none.
    model_config = ConfigDict(defer_build=True)


class _Function(_Model):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _Call(_Model):
    id: str | int | None = None
    function: _Function


class _Message(_Model):
    content: str | list[dict[str, Any]] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(_Model):
    message: _Message
    finish_reason: str | None = None


class Answer(_Model):
    """A whole answer, of which we read no more than this."""

    choices: list[_Choice]
    usage: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        """Return the text, without thinking."""
        content = self.choices[0].message.content
        if isinstance(content, list):
            content = "".join(part["text"] for part in content if isinstance(part.get("text"), str))
        return clean(content or "")

    @property
    def thinking(self) -> str:
        """Return what the model thought, if the server sends it."""
        message = self.choices[0].message
        return clean(message.reasoning_content or message.reasoning or "")

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Return the calls of tools."""
        calls = self.choices[0].message.tool_calls
        if not calls:
            return ()
        return to_tool_calls(
            (
                None if call.id is None else str(call.id),
                call.function.name,
                json.dumps(arguments) if isinstance(arguments := call.function.arguments, dict) else arguments,
            )
            for call in calls
        )


@cache
def _load_certificates() -> ssl.SSLContext:
    """Return what all servers' certificates are verified with; to read them takes 40 ms."""
    # Those that come with Parley besides the system's, which a bare container lacks.
    tls = ssl.create_default_context()
    tls.load_verify_locations(certifi.where())
    return tls


def find_proxy(url: str) -> str | None:
    """Return the proxy that the environment names for this address, None without one."""
    # Imported here: the offline model has no server, and this brings a client of its own with the parser of mails.
    from urllib.request import getproxies, proxy_bypass

    address = urlsplit(url)
    is_direct = proxy_bypass(address.hostname or "")
    return None if is_direct else getproxies().get(address.scheme)


class OpenAIServer:
    """A server with OpenAI's protocol at `base_url`; keeps its connections open until `aclose`."""

    def __init__(self, base_url: str, headers: Mapping[str, str]) -> None:
        self._base_url = base_url.rstrip("/")
        self._headers = {"Content-Type": "application/json", **headers}
        self._session: aiohttp.ClientSession | None = None

    @property
    def is_openai(self) -> bool:
        """Return whether it is OpenAI itself."""
        return self._base_url == OPENAI_URL

    def load(self) -> None:
        """Import what the first request needs, as long as nobody waits for it."""
        import aiohttp  # noqa: F401  # 0.2 s

    @property
    def faults(self) -> tuple[type[Exception], ...]:
        """Return what requests raise."""
        import aiohttp

        return (ServerError, aiohttp.ClientError, OSError, TimeoutError)

    @property
    def stream_faults(self) -> tuple[type[Exception], ...]:
        """Return what breaks a stream off, invalid chunks included."""
        return (*self.faults, *STREAM_FAULTS)

    async def ask(self, body: Mapping[str, Any], seconds: float) -> Answer:
        """Return a whole answer; raises one of `faults`."""
        async with self._request("POST", CHAT, body, seconds=seconds) as response:
            content = await _read(response)
        try:
            return Answer.model_validate_json(content)
        except ValidationError:
            pass
        document: Any = None
        try:
            document = json.loads(content)
            # Half a character, which some servers cut a text at, is no valid JSON.
            return Answer.model_validate_json(clean(json.dumps(document, ensure_ascii=False)))
        except (ValueError, RecursionError):
            message = ""
            if isinstance(document, dict) and "error" in document:
                # Some servers report an error with the status of an answer.
                error = document["error"]
                message = str(error.get("message") if isinstance(error, dict) else error)
            raise ServerError(200, message or "the answer can't be read") from None

    async def list_models(self, seconds: float) -> list[str]:
        """Return the models that the server offers; raises one of `faults`, also when it has no such list."""
        async with self._request("GET", "/models", seconds=seconds) as response:
            content = await _read(response)
        try:
            return [str(model["id"]) for model in json.loads(content)["data"]]
        except (ValueError, LookupError, TypeError, RecursionError):
            raise ServerError(200, "the list of models can't be read") from None

    @asynccontextmanager
    async def stream(self, body: Mapping[str, Any], seconds: float) -> AsyncIterator[AsyncIterator[str]]:
        """Open a streamed answer, and give its lines; raises one of `faults`."""
        streamed = {**body, "stream": True, "stream_options": {"include_usage": True}}
        async with self._request("POST", CHAT, streamed, seconds=seconds) as response:
            yield _list_lines(response)

    @asynccontextmanager
    async def _request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, seconds: float
    ) -> "AsyncIterator[aiohttp.ClientResponse]":
        import aiohttp

        timeout = aiohttp.ClientTimeout(sock_connect=min(seconds, CONNECT_SECONDS), sock_read=seconds)
        data = None if body is None else json.dumps(body, ensure_ascii=False).encode(errors="replace")
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, ssl=_load_certificates(), keepalive_timeout=KEEP_SECONDS)
            # aiohttp's `trust_env` would read the environment and `.netrc` for each request, in a thread.
            self._session = aiohttp.ClientSession(
                connector=connector,
                proxy=find_proxy(self._base_url),
                max_line_size=MOST_LINE_BYTES,
                read_bufsize=MOST_LINE_BYTES // 64,
            )
        async with self._session.request(
            method, f"{self._base_url}{path}", data=data, headers=self._headers, timeout=timeout, allow_redirects=False
        ) as response:
            if response.status != 200:
                content = await _read(response)
                headers = {name.lower(): value for name, value in response.headers.items()}
                raise ServerError(response.status, content.decode(errors="replace"), headers)
            yield response

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None


async def _read(response: "aiohttp.ClientResponse") -> bytes:
    pieces, size = [], 0
    async for piece in response.content.iter_any():
        size += len(piece)
        if size > MOST_BYTES:
            raise ServerError(200, "the answer has no end")
        pieces.append(piece)
    return b"".join(pieces)


async def _list_lines(response: "aiohttp.ClientResponse") -> AsyncIterator[str]:
    rest = b""
    async for piece in response.content.iter_any():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace").rstrip("\r")
        if len(rest) > MOST_LINE_BYTES:
            raise ServerError(200, "a line of the answer has no end")
    if rest:
        yield rest.decode(errors="replace")


def read_usage(reported: Mapping[str, Any] | None) -> Usage | None:
    """Return the usage that a server reports, without cost; None if it is missing or not credible."""
    if not isinstance(reported, Mapping):
        return None
    details = reported.get("prompt_tokens_details")
    places = (details, reported) if isinstance(details, Mapping) else (reported,)
    cached = max(to_count(place.get(name)) for place in places for name in CACHED_NAMES)
    return to_usage(to_count(reported.get("prompt_tokens")), cached, to_count(reported.get("completion_tokens")))


def to_usage(input_tokens: int, cached_tokens: int, output_tokens: int) -> Usage | None:
    """Return the usage; None if it is not credible: a real prompt never has zero tokens."""
    if not input_tokens or max(input_tokens, output_tokens) > MOST_TOKENS:
        return None
    return Usage(input_tokens, min(cached_tokens, input_tokens), output_tokens)


def to_count(value: Any) -> int:
    """Return a number of tokens as it may be reported."""
    return max(0, value) if isinstance(value, int) and not isinstance(value, bool) else 0
