"""The HTTP client for all outgoing requests, with the egress guard.

Origins in `EGRESS_ALLOW`, and the origin of a request with `trusted=True`, may have any address. Everything else,
including the targets of redirects, must be on the public internet.
"""

import asyncio
import json as json_text
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

from msgspec import Struct
from msgspec.structs import replace

from shared.errors import ConfigurationError, ToolError, Unavailable
from shared.http.gzip_stream import GzipStream
from shared.settings import Settings

if TYPE_CHECKING:
    import httpcore
    import httpx

    from shared.http.egress import Resolve

MAX_REDIRECTS = 5
MAX_BYTES = 5 * 1024 * 1024
TIMEOUT_SECONDS = 30.0
DEFAULT_PORTS = {"http": 80, "https": 443}
MAX_PORT = 65_535
DEFAULT_HEADERS = {"accept": "*/*", "accept-encoding": "gzip", "user-agent": "Parley"}
# Python knows other charsets, whose work grows with the square of the text, or that are no encodings of pages.
CHARSET = re.compile(
    r";\s*charset\s*=\s*\"?"
    r"((?:utf[-_]?(?:8|16|32)|(?:us-)?ascii|latin|l\d|iso|windows|cp\d|koi8|gb|big5|shift|sjis|euc|mac|tis|ks_c)"
    r"[\w:-]{0,20})(?![\w:-])",
    re.ASCII | re.IGNORECASE,
)
MAX_TYPE_CHARS = 500
# Sent along when a redirect leads to another origin; any other header may contain a credential.
CROSS_ORIGIN_HEADERS = frozenset({"accept", "accept-language", "content-type", "user-agent"})


class Response(Struct, frozen=True):
    """A response of any status; header names are in lower case, `url` is the one after redirects."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str

    @property
    def text(self) -> str:
        """Return the body decoded with the charset of its content type, or UTF-8."""
        charset = CHARSET.search(self.headers.get("content-type", "")[:MAX_TYPE_CHARS])
        try:
            return self.body.decode(charset[1] if charset else "utf-8", "replace")
        except LookupError:
            return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        """Return the body parsed as JSON; raises `Unavailable` when it is not JSON."""
        try:
            return json_text.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise Unavailable(f"{self.url} did not answer with JSON.") from error


class StreamedResponse(Struct, frozen=True):
    """A response whose body is read in chunks from `pieces`, which raises `ToolError` above the size limit."""

    status: int
    headers: Mapping[str, str]
    url: str
    pieces: AsyncIterator[bytes]


class RequestOptions(TypedDict, total=False):
    """Options of a request.

    `trusted` allows any address for the URL's own origin, but not for redirects to other origins. `timeout_seconds`
    is for the whole request including the body; `max_bytes` limits the body, compressed and decompressed.
    """

    headers: Mapping[str, str]
    params: Mapping[str, str]
    content: bytes
    json: Any
    form: Mapping[str, str]
    trusted: bool
    follow_redirects: bool
    timeout_seconds: float
    max_bytes: int


class _Hop(Struct, frozen=True):
    method: str
    url: "httpx.URL"
    headers: dict[str, str]
    content: bytes
    trusted_origin: str | None

    @classmethod
    def from_options(cls, method: str, url: str, options: RequestOptions) -> Self:
        import httpx

        parsed = _parse(url)
        if options.get("params"):
            parsed = parsed.copy_merge_params(dict(options["params"]))
        form = options.get("form")
        request = httpx.Request(
            method,
            parsed,
            headers=DEFAULT_HEADERS | {name.lower(): value for name, value in options.get("headers", {}).items()},
            content=options.get("content"),
            json=options.get("json"),
            data=None if form is None else dict(form),
        )
        # These two are computed again for each hop.
        headers = {name: value for name, value in request.headers.items() if name not in ("host", "content-length")}
        return cls(
            request.method,
            parsed,
            headers,
            content=request.read(),
            trusted_origin=_origin(parsed) if options.get("trusted") else None,
        )

    def redirect(self, status: int, location: str) -> Self:
        import httpx

        try:
            url = _checked_url(self.url.join(location))
        except (httpx.InvalidURL, UnicodeError) as error:
            raise ToolError(f"{self.url.host} redirects to something that is not a URL.") from error
        method, content, headers = self.method, self.content, self.headers
        if status == 303 or (status in (301, 302) and method == "POST"):
            method, content = "HEAD" if method == "HEAD" else "GET", b""
        if _origin(url) != _origin(self.url):
            headers = DEFAULT_HEADERS | {name: value for name, value in headers.items() if name in CROSS_ORIGIN_HEADERS}
        if not content:
            headers = {name: value for name, value in headers.items() if name != "content-type"}
        return replace(self, method=method, url=url, headers=headers, content=content)


class GuardedClient:
    """Sends HTTP requests, with a total timeout and a size limit, to public addresses and trusted origins only.

    Raises `ToolError` for a URL that may not or can't be opened, `Unavailable` when the network or the server fails.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        platform_origins: Mapping[str, str] | None = None,
        resolve: "Resolve | None" = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Trust the origins of the settings; `platform_origins` are those of chat platforms, by variable."""
        self._allowed = frozenset(_origin_of_setting("EGRESS_ALLOW", origin) for origin in settings.egress_allow)
        self._platforms = frozenset(_origin_of_setting(name, url) for name, url in (platform_origins or {}).items())
        self._resolve = resolve
        self._tls = tls
        # Two pools, so that a guarded request never reuses a connection that a trusted one has opened.
        self._pools: dict[bool, httpcore.AsyncConnectionPool] = {}

    async def get(self, url: str, **options: Unpack[RequestOptions]) -> Response:
        """Send a GET request and read the whole response."""
        return await self.request("GET", url, **options)

    async def request(self, method: str, url: str, **options: Unpack[RequestOptions]) -> Response:
        """Send a request and read the whole response."""
        async with self.stream(method, url, **options) as response:
            body = b"".join([piece async for piece in response.pieces])
            return Response(response.status, response.headers, body, url=response.url)

    @asynccontextmanager
    async def stream(self, method: str, url: str, **options: Unpack[RequestOptions]) -> AsyncIterator[StreamedResponse]:
        """Send a request and yield the response before its body is read; the timeout covers the whole block."""
        import httpcore  # Imported late: the network libraries take 0.2 s to import.

        hop = _Hop.from_options(method, url, options)
        seconds = options.get("timeout_seconds", TIMEOUT_SECONDS)
        try:
            async with asyncio.timeout(seconds) as deadline:
                response, last = await self._follow(hop, MAX_REDIRECTS if options.get("follow_redirects", True) else 0)
                headers = _lowercase_headers(response)
                max_bytes = options.get("max_bytes", MAX_BYTES)
                body = _decode_body(response, headers, last.url.host, max_bytes=max_bytes)
                async with aclosing(response), aclosing(body) as pieces:
                    yield StreamedResponse(response.status, headers, str(last.url), pieces=pieces)
        except TimeoutError as error:
            if not deadline.expired():
                raise
            raise Unavailable(f"{hop.url.host} did not answer within {seconds:g} seconds.") from error
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
            raise Unavailable(f"{hop.url.host} can't be reached just now.") from error

    def is_platform(self, url: str) -> bool:
        """Tell whether this URL's origin is one of a chat platform, where attachments may be."""
        return _origin(_parse(url)) in self._platforms

    async def aclose(self) -> None:
        """Close all connections."""
        while self._pools:
            await self._pools.popitem()[1].aclose()

    async def _follow(self, hop: _Hop, redirects: int) -> "tuple[httpcore.Response, _Hop]":
        for number in range(redirects, -1, -1):
            response = await self._send(hop)
            location = _lowercase_headers(response).get("location")
            if response.status not in (301, 302, 303, 307, 308) or location is None or redirects == 0:
                return response, hop
            await response.aclose()
            if number:
                hop = hop.redirect(response.status, location)
        raise ToolError(f"{hop.url.host} redirects more than {redirects} times.")

    async def _send(self, hop: _Hop) -> "httpcore.Response":
        import httpcore
        import httpx

        from shared.http.egress import GuardedNetwork, SystemResolver

        _refuse_unsupported(hop.url)
        request = httpx.Request(hop.method, hop.url, headers=hop.headers, content=hop.content)
        target = httpcore.URL(
            scheme=hop.url.raw_scheme, host=hop.url.raw_host, port=hop.url.port, target=hop.url.raw_path
        )
        origin = _origin(hop.url)
        is_trusted = origin in self._allowed or origin == hop.trusted_origin
        if is_trusted not in self._pools:
            self._tls = self._tls or httpx.create_ssl_context()
            self._resolve = self._resolve or SystemResolver()
            self._pools[is_trusted] = httpcore.AsyncConnectionPool(
                self._tls,
                max_connections=100,
                max_keepalive_connections=20,
                keepalive_expiry=30,
                network_backend=GuardedNetwork(self._resolve, public_only=not is_trusted),
            )
        return await self._pools[is_trusted].handle_async_request(
            httpcore.Request(hop.method, target, headers=request.headers.raw, content=hop.content)
        )


def _parse(url: str) -> "httpx.URL":
    import httpx

    try:
        return _checked_url(httpx.URL(url.strip()))
    except (httpx.InvalidURL, UnicodeError) as error:
        raise ToolError(f"{url[:200]!r} is not a URL that can be opened.") from error


def _checked_url(url: "httpx.URL") -> "httpx.URL":
    import httpx

    # Reading `host` raises for invalid Punycode, which httpx does not check when it parses the URL.
    if url.host and not 0 <= (url.port or 0) <= MAX_PORT:
        raise httpx.InvalidURL("There is no such port.")
    return url


def _refuse_unsupported(url: "httpx.URL") -> None:
    if url.scheme not in DEFAULT_PORTS or not url.host:
        raise ToolError("Only URLs that begin with http:// or https:// and name a host can be opened.")
    if url.userinfo:
        raise ToolError("A URL with a user name or password in it can't be opened.")


def _origin_of_setting(name: str, text: str) -> str:
    try:
        url = _parse(text)
        _refuse_unsupported(url)
    except ToolError as error:
        raise ConfigurationError(f"{name} is wrong: write an origin like http://host:port, not {text!r}.") from error
    return _origin(url)


def _origin(url: "httpx.URL") -> str:
    return f"{url.scheme}://{url.host}:{url.port or DEFAULT_PORTS.get(url.scheme)}"


def _lowercase_headers(response: "httpcore.Response") -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}


async def _decode_body(
    response: "httpcore.Response", headers: Mapping[str, str], host: str, max_bytes: int
) -> AsyncGenerator[bytes]:
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", "x-gzip", ""):
        raise Unavailable(f"{host} answered in an encoding that was not asked for.")
    gzip = GzipStream(host) if "gzip" in encoding else None
    raw_size = decoded = 0
    async for chunk in response.aiter_stream():
        raw_size += len(chunk)
        for piece in gzip.feed(chunk) if gzip else (chunk,):
            decoded += len(piece)
            # Both are limited: a stream of empty blocks decompresses to nothing and never ends.
            if max(raw_size, decoded) > max_bytes:
                raise ToolError(f"The answer of {host} is larger than {max_bytes:,} bytes.")
            yield piece
    if gzip and raw_size and not gzip.is_complete:
        raise Unavailable(f"The answer of {host} broke off.")
