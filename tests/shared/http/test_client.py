"""The HTTP client: refused addresses, redirects, limits, timeouts and decoding."""

import asyncio
import gzip
import io
from collections.abc import AsyncIterator, Sequence

import pytest

from shared.errors import ConfigurationError, ToolError, Unavailable
from shared.http.client import GuardedClient, Response
from shared.settings import Settings
from tests.support.loopback import Request, Server, by_path, redirect, reply, serving, silence
from tests.support.names import Names

PUBLIC = "93.184.215.14"


@pytest.fixture
async def client() -> AsyncIterator[GuardedClient]:
    guarded = GuardedClient(Settings())
    yield guarded
    await guarded.aclose()


def allowing(*servers: Server) -> GuardedClient:
    return GuardedClient(Settings(egress_allow=tuple(server.origin for server in servers)))


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "017700000001",
        "127.1",
        "0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "127.0.0.1.",
        "\uff11\uff12\uff17.0.0.1",
    ],
)
async def test_loopback_is_refused_however_it_is_written(client: GuardedClient, host: str) -> None:
    async with serving(reply(b"secret")) as server:
        with pytest.raises((ToolError, Unavailable)):
            await client.get(f"http://{host}:{server.port}/", timeout_seconds=10)

    assert server.requests == []


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/",
        "file:///etc/passwd",
        "gopher://127.0.0.1/",
        "//example.com/",
        "example.com",
        "http://",
        "http:///path",
        "",
        "http://user:word@example.com/",
        "http://user@example.com/",
        "http://[::1",
        "http://exa mple.com/",
        "http://example.com:99999/",
        "http://example.com/\r\nX-Evil: 1",
        "javascript:alert(1)",
    ],
)
async def test_a_url_that_can_not_be_opened_raises_a_tool_error(client: GuardedClient, url: str) -> None:
    with pytest.raises(ToolError):
        await client.get(url)


async def test_a_name_with_one_private_address_among_public_ones_is_refused() -> None:
    client = GuardedClient(Settings(), resolve=Names(mixed=[[PUBLIC, "10.0.0.1"]]))

    with pytest.raises(ToolError, match="not on the public internet"):
        await client.get("http://mixed.example/")


async def test_dns_rebinding_does_not_reach_a_private_address() -> None:
    names = Names(rebind=[["127.0.0.1"], ["127.0.0.1"]])
    async with serving(reply(b"secret")) as server:
        client = GuardedClient(Settings(), resolve=names)
        with pytest.raises(ToolError):
            await client.get(f"http://rebind.example:{server.port}/")

    assert names.asked == ["rebind.example"]
    assert server.requests == []


async def test_the_host_is_resolved_once_and_sent_as_the_host_header() -> None:
    names = Names(shop=[["127.0.0.1"], ["192.0.2.1"]])
    async with serving(reply(b"hello")) as server:
        client = GuardedClient(Settings(), resolve=names)
        response = await client.get(f"http://shop.example:{server.port}/", trusted=True)
        await client.aclose()

    assert response.body == b"hello"
    assert names.asked == ["shop.example"]
    assert server.requests[0].headers["host"] == f"shop.example:{server.port}"


async def test_a_guarded_request_does_not_reuse_the_connection_of_a_trusted_one(client: GuardedClient) -> None:
    async with serving(reply(b"hello")) as server:
        await client.get(f"{server.origin}/", trusted=True)
        with pytest.raises(ToolError, match="not on the public internet"):
            await client.get(f"{server.origin}/")

    assert len(server.requests) == 1


async def test_an_allowed_origin_does_not_allow_its_other_ports() -> None:
    async with serving(reply(b"yes")) as first, serving(reply(b"no")) as other:
        client = allowing(first)
        assert (await client.get(f"{first.origin}/")).body == b"yes"
        with pytest.raises(ToolError):
            await client.get(f"{other.origin}/")
        await client.aclose()

    assert other.requests == []


async def test_a_redirect_to_loopback_is_refused() -> None:
    async with serving(reply(b"secret")) as inner, serving(redirect(f"{inner.origin}/")) as outer:
        client = allowing(outer)
        with pytest.raises(ToolError, match="not on the public internet"):
            await client.get(f"{outer.origin}/")
        await client.aclose()

    assert inner.requests == []


async def test_a_trusted_origin_may_not_redirect_to_another_private_one(client: GuardedClient) -> None:
    async with serving(reply(b"secret")) as inner, serving(redirect(f"{inner.origin}/")) as outer:
        with pytest.raises(ToolError):
            await client.get(f"{outer.origin}/", trusted=True)

    assert inner.requests == []


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "http://user:word@example.com/", "http://[", "ftp://a.example/"]
)
async def test_a_redirect_to_an_unsupported_url_is_refused(location: str) -> None:
    async with serving(redirect(location)) as server:
        client = allowing(server)
        with pytest.raises(ToolError):
            await client.get(f"{server.origin}/")
        await client.aclose()


async def test_five_redirects_are_followed_and_a_sixth_is_not() -> None:
    steps = {f"/{number}": redirect(f"/{number + 1}") for number in range(6)}
    async with serving(by_path({**steps, "/6": reply(b"end")})) as server:
        client = allowing(server)
        response = await client.get(f"{server.origin}/1")
        with pytest.raises(ToolError, match="more than 5 times"):
            await client.get(f"{server.origin}/0")
        await client.aclose()

    assert (response.body, response.url) == (b"end", f"{server.origin}/6")
    assert len(server.requests) == 12


async def test_without_following_redirects_the_redirect_is_returned() -> None:
    async with serving(redirect("/next")) as server:
        client = allowing(server)
        response = await client.get(f"{server.origin}/", follow_redirects=False)
        await client.aclose()

    assert (response.status, response.headers["location"]) == (302, "/next")


async def test_credentials_do_not_follow_a_redirect_to_another_origin() -> None:
    secrets = {"Authorization": "Bearer one", "Cookie": "two", "X-Api-Key": "three", "Accept": "text/html"}
    async with serving(reply(b"ok")) as other, serving(by_path({"/away": redirect(f"{other.origin}/")})) as server:
        client = allowing(server, other)
        await client.get(f"{server.origin}/away", headers=secrets)
        await client.aclose()

    assert {"authorization", "cookie", "x-api-key"} <= server.requests[0].headers.keys()
    assert {"authorization", "cookie", "x-api-key"} & other.requests[0].headers.keys() == set()
    assert other.requests[0].headers["accept"] == "text/html"


async def test_credentials_follow_a_redirect_within_the_origin() -> None:
    async with serving(by_path({"/a": redirect("/b"), "/b": reply(b"ok")})) as server:
        client = allowing(server)
        await client.get(f"{server.origin}/a", headers={"Authorization": "Bearer one"})
        await client.aclose()

    assert server.requests[1].headers["authorization"] == "Bearer one"


@pytest.mark.parametrize(
    ("status", "method", "body"), [(302, "GET", b""), (303, "GET", b""), (307, "POST", b'{"a":1}')]
)
async def test_a_redirected_post_keeps_or_drops_its_body_by_status(status: int, method: str, body: bytes) -> None:
    async with serving(by_path({"/a": redirect("/b", status), "/b": reply(b"ok")})) as server:
        client = allowing(server)
        await client.request("POST", f"{server.origin}/a", json={"a": 1})
        await client.aclose()

    assert (server.requests[1].method, server.requests[1].body) == (method, body)


async def test_cookies_are_not_kept_between_requests() -> None:
    async with serving(reply(b"ok", headers={"Set-Cookie": "session=alice"})) as server:
        client = allowing(server)
        await client.get(f"{server.origin}/")
        await client.get(f"{server.origin}/")
        await client.aclose()

    assert "cookie" not in server.requests[1].headers


@pytest.mark.parametrize(
    ("content_type", "text"),
    [
        ('text/plain; format=flowed; CharSet="ISO-8859-1"', "Ã¼-zz9"),
        ("text/plain;charset=utf-8", "ü-zz9"),
        ("text/plain; charset=iso-8859-99", "ü-zz9"),
        # Decoding these takes a time that grows with the square of the text, or raises other errors.
        *((f"text/plain; charset={name}", "ü-zz9") for name in ("punycode", "idna", "undefined", "unicode_escape")),
        ("text/plain; charset*=punycode''utf-8", "ü-zz9"),
        ('text/plain; a="' + ";" * 90_000, "ü-zz9"),
    ],
)  # fmt: skip
def test_only_charsets_of_pages_are_decoded(content_type: str, text: str) -> None:
    assert Response(200, {"content-type": content_type}, "ü-zz9".encode(), url="").text == text


async def test_parameters_form_and_charset_are_encoded_and_decoded() -> None:
    async with serving(
        reply("grüß dich".encode("latin-1"), headers={"Content-Type": "text/plain; charset=latin-1"})
    ) as server:
        client = allowing(server)
        response = await client.request("POST", f"{server.origin}/p?x=1", params={"q": "a b&c"}, form={"k": "ü"})
        await client.aclose()

    assert response.text == "grüß dich"
    assert server.requests[0].path == "/p?x=1&q=a+b%26c"
    assert server.requests[0].body == b"k=%C3%BC"


async def test_compressed_responses_are_decompressed() -> None:
    body = gzip.compress(b"first ") + gzip.compress(b"second" * 50_000)
    async with serving(reply(body, headers={"Content-Encoding": "gzip"})) as server:
        client = allowing(server)
        response = await client.get(f"{server.origin}/")
        await client.aclose()

    assert response.body == b"first " + b"second" * 50_000


async def test_a_decompression_bomb_is_stopped_at_the_size_limit() -> None:
    bomb = gzip.compress(bytes(200 * 1024 * 1024))
    async with serving(reply(bomb, headers={"Content-Encoding": "gzip"})) as server:
        client = allowing(server)
        buffer = io.BytesIO()
        with pytest.raises(ToolError, match="larger than 1,000,000 bytes"):
            await keep(client, f"{server.origin}/", buffer)
        await client.aclose()

    assert buffer.tell() <= 1_000_000


async def keep(client: GuardedClient, url: str, buffer: io.BytesIO) -> None:
    async with client.stream("GET", url, max_bytes=1_000_000) as response:
        async for piece in response.pieces:
            buffer.write(piece)


@pytest.mark.parametrize(
    ("body", "encoding"),
    [(b"no gzip", "gzip"), (gzip.compress(b"x" * 9000)[:-9], "gzip"), (b"x", "br"), (b"x", "gzip, gzip")],
    ids=["not gzip", "cut", "unknown encoding", "packed twice"],
)
async def test_a_damaged_or_unknown_encoding_raises_unavailable(body: bytes, encoding: str) -> None:
    async with serving(reply(body, headers={"Content-Encoding": encoding})) as server:
        client = allowing(server)
        with pytest.raises(Unavailable):
            await client.get(f"{server.origin}/")
        await client.aclose()


async def test_a_body_above_the_size_limit_is_refused() -> None:
    async with serving(reply(b"x" * 2000)) as server:
        client = allowing(server)
        with pytest.raises(ToolError, match="larger than 1,000 bytes"):
            await client.get(f"{server.origin}/", max_bytes=1000)
        assert len((await client.get(f"{server.origin}/", max_bytes=2000)).body) == 2000
        await client.aclose()


async def test_the_timeout_covers_a_body_that_arrives_slowly() -> None:
    async def drip(_request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(1000):
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)

    async with serving(drip) as server:
        client = allowing(server)
        with pytest.raises(Unavailable, match=r"within 0\.2 seconds"):
            await client.get(f"{server.origin}/", timeout_seconds=0.2)
        await client.aclose()


async def test_a_server_that_does_not_answer_times_out() -> None:
    async with serving(silence) as server:
        client = allowing(server)
        with pytest.raises(Unavailable):
            await client.get(f"{server.origin}/", timeout_seconds=0.2)
        await client.aclose()


async def test_a_name_server_that_does_not_answer_times_out() -> None:
    async def silence(_host: str, _port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    client = GuardedClient(Settings(), resolve=silence)
    with pytest.raises(Unavailable):
        await client.get("http://slow.example/", timeout_seconds=0.1)


async def test_a_timeout_raised_by_the_caller_is_not_converted() -> None:
    async with serving(reply(b"ok")) as server:
        client = allowing(server)
        with pytest.raises(TimeoutError):
            async with client.stream("GET", f"{server.origin}/"):
                raise TimeoutError
        await client.aclose()


async def test_an_unknown_host_raises_a_tool_error() -> None:
    with pytest.raises(ToolError, match=r"no host named nowhere\.example"):
        await GuardedClient(Settings(), resolve=Names()).get("http://nowhere.example/")


async def test_a_refused_connection_raises_unavailable(client: GuardedClient) -> None:
    async with serving(reply()) as server:
        pass
    with pytest.raises(Unavailable):
        await client.get(f"{server.origin}/", trusted=True)


async def test_an_incomplete_response_raises_unavailable() -> None:
    async def broken(_request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
        writer.close()

    async with serving(broken) as server:
        client = allowing(server)
        with pytest.raises(Unavailable):
            await client.get(f"{server.origin}/")
        await client.aclose()


async def test_a_body_that_is_not_json_raises_unavailable_when_parsed() -> None:
    async with serving(
        by_path({"/bad": reply(b"<html>"), "/deep": reply(b"[" * 100_000), "/ok": reply(b'{"a": 1}')})
    ) as server:
        client = allowing(server)
        assert (await client.get(f"{server.origin}/ok")).json() == {"a": 1}
        for path in ("bad", "deep"):
            response = await client.get(f"{server.origin}/{path}")
            with pytest.raises(Unavailable):
                response.json()
        await client.aclose()


@pytest.mark.parametrize("origin", ["localhost:9000", "ftp://a.example", "http://user:word@a.example", "http://"])
def test_an_invalid_origin_in_the_settings_names_the_variable(origin: str) -> None:
    with pytest.raises(ConfigurationError, match="EGRESS_ALLOW"):
        GuardedClient(Settings(egress_allow=(origin,)))
