"""Attachments are fetched and stored, from allowed origins only."""

import codecs
import hashlib

import pytest

from shared.errors import NotFound, ToolError, Unavailable
from shared.files.attachments import FetchLimits, Stored, store_attachment
from shared.files.filenames import new_key
from shared.files.storage import Storage
from shared.http.client import GuardedClient
from shared.messages import Attachment
from shared.settings import Settings
from tests.support.filing import everything
from tests.support.loopback import by_path, redirect, reply, serving

PNG = codecs.decode("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489", "hex")


async def test_an_attachment_is_fetched_and_its_type_detected(storage: Storage) -> None:
    async with serving(reply(PNG + bytes(100_000), headers={"Content-Type": "text/html"})) as server:
        http = GuardedClient(Settings(), platform_origins={"POND_BASE": server.origin})
        key = new_key("1", "a.html")
        attachment = await store_attachment(
            storage, http, Attachment("a.html", "text/html", url=f"{server.origin}/a.html"), key
        )
        await http.aclose()

    sha256 = hashlib.sha256(PNG + bytes(100_000)).hexdigest()
    assert attachment == Stored("image/png", len(PNG) + 100_000, sha256)
    assert (await everything(storage, key)).startswith(PNG)


async def test_the_type_and_size_of_an_attachment_in_storage_are_returned(storage: Storage) -> None:
    http = GuardedClient(Settings())
    await storage.put("inbox/abc/a.csv", b"a,b\n1,2\n", "text/csv")
    attachment = await store_attachment(
        storage, http, Attachment("a.csv", "text/csv", storage_key="inbox/abc/a.csv"), "inbox/abc/a.csv"
    )

    assert attachment == Stored("text/csv", 8, None)
    with pytest.raises(NotFound):
        await store_attachment(storage, http, Attachment("b", storage_key="inbox/abc/b"), "inbox/abc/b")


async def test_an_attachment_from_a_private_address_is_refused(storage: Storage) -> None:
    http = GuardedClient(Settings())
    async with serving(reply(b"secret")) as server:
        with pytest.raises(ToolError, match="not on the public internet"):
            await store_attachment(storage, http, Attachment("a", url=f"{server.origin}/"), "1/a/b")
    with pytest.raises(ToolError):
        await store_attachment(storage, http, Attachment("a"), "1/a/b")
    with pytest.raises(NotFound):
        await storage.size("1/a/b")

    assert server.requests == []


@pytest.mark.parametrize(
    ("status", "error"), [(404, ToolError), (403, ToolError), (500, Unavailable), (429, Unavailable)]
)
async def test_an_error_status_of_the_attachments_server_is_raised(
    storage: Storage, status: int, error: type[Exception]
) -> None:
    async with serving(by_path({"/a": redirect("/b"), "/b": reply(b"no", status)})) as server:
        http = GuardedClient(Settings(egress_allow=(server.origin,)))
        with pytest.raises(error):
            await store_attachment(storage, http, Attachment("a", url=f"{server.origin}/a"), "1/a/b")
        await http.aclose()


async def test_an_attachment_that_is_larger_than_declared_is_refused_and_not_stored(storage: Storage) -> None:
    async with serving(reply(b"x" * 200_000)) as server:
        http = GuardedClient(Settings(egress_allow=(server.origin,)))
        with pytest.raises(ToolError, match="larger than 100 bytes"):
            await store_attachment(
                storage, http, Attachment("a", size_bytes=100, url=f"{server.origin}/a"), key="1/a/b"
            )
        await http.aclose()

    with pytest.raises(NotFound):
        await storage.size("1/a/b")


async def test_an_attachment_above_the_size_limit_is_refused_and_not_stored(storage: Storage) -> None:
    async with serving(reply(b"x" * 200_000)) as server:
        http = GuardedClient(Settings(egress_allow=(server.origin,)))
        with pytest.raises(ToolError, match="larger than"):
            await store_attachment(
                storage, http, Attachment("a", url=f"{server.origin}/a"), key="1/a/b", limits=FetchLimits(100_000)
            )
        await http.aclose()

    with pytest.raises(NotFound):
        await storage.size("1/a/b")
