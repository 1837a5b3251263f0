"""What somebody sends who wants to harm Parley, with a token, with a session or with neither."""

import asyncio
import base64
import gc
import json
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from secrets import randbelow
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import httpx
import pytest

from adapters.web.api.bodies import MAX_LARGE_BODIES, SentFile
from adapters.web.api.openai.bodies import ImageAddress
from adapters.web.api.openai.response_bodies import InputImage
from adapters.web.guard import MAX_HEAD_BYTES
from tests.adapters.web.conftest import Site
from tests.standins.openai_api.script import gated_answer
from tests.support.eventually import PATIENCE, eventually

HEAD = b"GET /healthz HTTP/1.1\r\nHost: parley\r\n"
CHUNKED = b"POST /healthz HTTP/1.1\r\nHost: parley\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
MOST_SENT = 64 * MAX_HEAD_BYTES


@pytest.mark.parametrize(
    ("beginning", "piece"),
    [(HEAD + b"X-One: ", b"a" * 8192), (HEAD, b"X-Many: a\r\n" * 1000), (b"GET /", b"a" * 8192)],
    ids=["one header", "many headers", "address"],
)
async def test_headers_without_an_end_are_refused(site: Site, beginning: bytes, piece: bytes) -> None:
    size, answer = await flood(site, beginning, piece)

    assert size < MOST_SENT
    assert answer == b"" or b" 431 " in answer
    assert (await site.client.get("/healthz")).status_code == 200


async def test_what_follows_a_body_without_an_end_is_refused(site: Site) -> None:
    size, _ = await flood(site, CHUNKED, b"X-Many: a\r\n" * 1000)

    assert size < MOST_SENT
    assert (await site.client.get("/healthz")).status_code == 200


async def test_long_headers_and_bodies_in_tiny_pieces_are_taken(site: Site) -> None:
    long = {"X-Long": "a" * (MAX_HEAD_BYTES - 2000)}
    body = b'{"platform": "test", "platform_user_id": "ann", "platform_channel_id": "dm", "content": "hello"}'

    async def in_pieces() -> AsyncIterator[bytes]:
        for _ in range(20_000):
            yield b" "
        yield body

    response = await site.client.post(
        "/v1/messages", content=in_pieces(), headers=long | {"Content-Type": "application/json"}
    )

    assert response.json()["content"] == "You said: hello"


async def test_a_place_whose_names_no_index_can_keep_is_refused_and_what_comes_beside_it_is_answered(
    site: Site,
) -> None:
    # Of letters without a pattern, which no index can compress.
    names = ["".join(chr(0x4E00 + randbelow(0x5000)) for _ in range(200)) for _ in range(4)]
    fields = ("platform", "platform_server_id", "platform_channel_id", "platform_thread_id")

    refusal, *others = await asyncio.gather(
        site.posts("hello", **dict(zip(fields, names, strict=True))),
        *(site.posts("hello", platform_user_id=person) for person in "abc"),
    )

    assert (refusal.status_code, refusal.json()["error"]["code"]) == (400, "invalid_request")
    assert [other.status_code for other in others] == [200, 200, 200]
    assert (await site.posts("hello", platform_channel_id=names[0])).status_code == 200


async def test_characters_that_no_table_can_keep_are_no_fault_of_ours_in_any_address(site: Site) -> None:
    paths = ["/v1/models/{0}", "/v1/conversations/{0}/events", "/v1/conversations/1/events?after={0}"]
    paths += ["/files/{0}", "/files/1?until={0}&signature={0}", "/static/{0}", "/{0}", "/?key={0}"]
    paths += ["/page/chats?before={0}", "/page/chats/{0}/messages", "/page/chats/c/messages?before={0}"]
    paths += ["/page/search?words={0}", "/chat/events?event_id={0}", "/a2a/{0}"]
    marks = ("%00", "a%00b", "%ED%A0%80", "%C0%80", "%2500")
    async with site.browser() as page:
        addresses = [path.format(mark) for path in paths for mark in marks]
        responses = [await client.get(address) for client in (page, site.client) for address in addresses]
        responses.append(await page.get("/page/chats", headers={"Cookie": 'parley_session="\\000"'}))

    assert [(response.url, response.status_code) for response in responses if response.status_code >= 500] == []
    results = dict(zip(addresses, responses, strict=False))
    for mark in ("%00", "a%00b"):
        refusal = results[f"/page/search?words={mark}"]
        assert (refusal.status_code, refusal.json()["error"]["code"]) == (400, "invalid_request")


async def flood(site: Site, beginning: bytes, piece: bytes) -> tuple[int, bytes]:
    """Send without end; return how much was taken before the other side hung up, and what it said."""
    address = urlsplit(site.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    size, answer = 0, b""
    try:
        async with asyncio.timeout(PATIENCE):
            writer.write(beginning)
            while size < MOST_SENT:
                writer.write(piece)
                await writer.drain()
                size += len(piece)
            answer = await reader.read()
    except ConnectionError:
        pass
    finally:
        writer.close()
    return size, answer


def stored_files(site: Site) -> list[Path]:
    return [path for path in (site.parley.app.settings.parley_home / "files").rglob("*") if path.is_file()]


async def test_files_under_the_id_of_another_message_take_no_room(site: Site) -> None:
    content = {"files": ("big.txt", b"a" * 5000, "text/plain")}
    async with site.browser() as page:
        await page.post("/chat/messages", data={"chat": "one", "event_id": "1", "content": "hi"}, files=content)
        before = stored_files(site)

        response = await page.post(
            "/chat/messages", data={"chat": "two", "event_id": "1", "content": "hi"}, files=content
        )

    assert response.status_code == 409
    assert stored_files(site) == before


async def test_the_files_of_a_request_are_kept_together_or_not_at_all(site: Site) -> None:
    good = {"filename": "big.txt", "data": base64.b64encode(b"a" * 5000).decode()}

    response = await site.posts("hi", attachments=[good, {"filename": "bad.txt", "data": "?"}])

    assert response.status_code == 400
    assert stored_files(site) == []


def image(address: str) -> dict[str, Any]:
    """Return a request for a completion, about an image at this address."""
    part = {"type": "image_url", "image_url": {"url": address}}
    return {"user": "ann", "messages": [{"role": "user", "content": [part]}]}


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("data:text/plain," + "%41" * 900_000, "messages: content of more than 256,000 characters has to be in base64"),
        ("http://parley.invalid/" + "a" * 2_000_000, "messages: a web address may have 4,000 characters"),
    ],
    ids=["escapes", "address"],
)
async def test_an_address_that_would_fill_the_memory_or_a_table_is_refused(site: Site, url: str, sentence: str) -> None:
    response = await site.client.post("/v1/chat/completions", json=image(url))

    assert (response.status_code, response.json()["error"]["message"]) == (400, sentence)


async def test_base64_with_a_space_behind_each_byte_takes_as_little_memory_as_without(site: Site) -> None:
    content = "QQ" + "A A " * 700_000
    # Made before: it is not what is measured.
    body = json.dumps(image(f"data:text/plain;base64,{content}AA")).encode()
    tracemalloc.start()
    try:
        response = await site.client.post(
            "/v1/chat/completions", content=body, headers={"Content-Type": "application/json"}
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert response.status_code == 200
    # A list of the pieces alone would take four bytes for each one of the text.
    assert peak < 7 * len(content)


async def test_brackets_can_t_hide_in_another_encoding(site: Site) -> None:
    # Half of the sign looks like a quotation mark to whoever counts bytes.
    body = f'{{"input":"\u2200","tools":{"[" * 900}{"]" * 900}}}'.encode("utf-16-le")

    response = await site.client.post("/v1/responses", content=body, headers={"Content-Type": "application/json"})

    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_json")


async def test_a_conversation_whose_name_no_index_can_keep_is_refused_at_every_address(
    site: Site, owner: asyncpg.Connection
) -> None:
    name = "".join(chr(0x10000 + randbelow(0x100000)) for _ in range(500))
    named = {"metadata": {"conversation_id": name}}
    question = {"messages": [{"role": "user", "content": "x"}], "metadata": {"conversation_id": name[:200]}}
    await site.posts("hello")
    own = {"Authorization": "Bearer " + await owner.fetchval("SELECT admin.create_token('test', 'ann')")}
    # Together with the account that comes before them, they are too long.
    place = {"platform_channel_id": name[:110], "platform_thread_id": name[110:197], "content": "x"}

    responses = [
        await site.client.post("/v1/responses", json={"input": "x", "user": "ann", **named}),
        await site.client.post("/v1/responses", json={"input": "x", **named}, headers=own),
        await site.client.post("/v1/chat/completions", json={"user": name[200:400], **question}),
        await site.client.post(
            "/v1/messages", json={"platform": "test", "platform_user_id": "ann", **place}, headers=own
        ),
    ]

    assert [response.status_code for response in responses] == [400] * 4
    assert all("2,400 characters together" in response.text for response in responses)


async def test_the_files_of_a_request_are_not_held_while_its_turn_runs(site: Site) -> None:
    hold, script = gated_answer("At last.")
    site.parley.model.play(script)
    content = base64.b64encode(b"a" * 5000).decode()
    address = f"data:text/plain;base64,{content}"
    items = [{"role": "user", "content": [{"type": "input_image", "image_url": address}]}]
    requests = [
        asyncio.create_task(site.posts("hi", attachments=[{"filename": "a.txt", "data": content}])),
        asyncio.create_task(site.client.post("/v1/chat/completions", json=image(address))),
        asyncio.create_task(site.client.post("/v1/responses", json={"input": items, "user": "ann"})),
    ]

    async def are_stored() -> bool:
        stored = await site.parley.value("SELECT count(*) FROM file_records WHERE status = 'stored'")
        return bool(stored == len(requests))

    async def are_let_go() -> bool:
        return not any(isinstance(value, SentFile | ImageAddress | InputImage) for value in gc.get_objects())

    try:
        await eventually(are_stored)
        await eventually(are_let_go)
    finally:
        hold.set()
    assert [response.status_code for response in await asyncio.gather(*requests)] == [200] * len(requests)


async def test_a_person_s_token_has_few_large_requests_on_their_way_at_once(
    site: Site, owner: asyncpg.Connection
) -> None:
    await site.posts("hello")
    token = await owner.fetchval("SELECT admin.create_token('test', 'ann')")
    head = (
        f"POST /v1/responses HTTP/1.1\r\nHost: parley\r\nAuthorization: Bearer {token}\r\nExpect: 100-continue\r\n"
        "Content-Type: application/json\r\nContent-Length: 2000000\r\n\r\n"
    )
    large = {"input": [{"role": "user", "content": [{"type": "input_text", "text": "a" * 99_000}] * 4}]}
    own = {"Authorization": f"Bearer {token}"}
    address = urlsplit(site.url)
    writers = []
    for _ in range(MAX_LARGE_BODIES):
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writers.append(writer)
        writer.write(head.encode())
        # The server asks for the body: it has begun with the request.
        assert b"100 Continue" in await reader.readline()

    refusal = await site.client.post("/v1/responses", json=large, headers=own)
    small = await site.client.post("/v1/responses", json={"input": "hi"}, headers=own)
    of_all = await site.client.post("/v1/responses", json=large)
    for writer in writers:
        writer.close()

    async def is_let_in() -> httpx.Response | None:
        response = await site.client.post("/v1/responses", json=large, headers=own)
        return None if response.status_code == 429 else response

    later = await eventually(is_let_in)
    assert (refusal.status_code, refusal.headers["retry-after"]) == (429, "1")
    assert [response.status_code for response in (small, of_all, later)] == [200] * 3
