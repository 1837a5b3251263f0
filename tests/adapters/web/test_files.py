"""Downloads behind signed links."""

from base64 import b64encode
from collections.abc import Callable
from urllib.parse import urlsplit

import httpx
import pytest

from adapters.chat.parts import collect
from shared.messages import ReplyFile
from tests.adapters.web.conftest import Site
from tests.standins.openai_api import Answer


async def make_file(site: Site, title: str = "Tea notes", content: str = "# Oolong\n3 minutes") -> str:
    """Let the agent make a document; return path and query of its link."""
    document = {"title": title, "content": content, "format": "md"}
    site.parley.model.play([Answer(tool_calls=[("file_manager__create_document", document)]), Answer("Here it is.")])
    answer = (await site.posts("write it down")).json()
    assert [file["filename"] for file in answer["files"]] == [answer["files"][0]["filename"]]
    link = urlsplit(answer["files"][0]["url"])
    return f"{link.path}?{link.query}"


async def test_a_file_of_the_reply_can_be_fetched_without_a_token(site: Site) -> None:
    path = await make_file(site)

    async with httpx.AsyncClient(base_url=site.url) as anybody:
        file = await anybody.get(path)
        head = await anybody.head(path)

    assert file.status_code == 200
    assert "3 minutes" in file.text
    assert file.headers["content-disposition"].startswith("attachment; filename=")
    assert file.headers["x-content-type-options"] == "nosniff"
    assert file.headers["content-security-policy"].startswith("sandbox;")
    assert file.headers["content-length"] == str(len(file.content))
    assert head.headers["content-length"] == str(len(file.content))


async def test_a_name_in_any_script_is_kept(site: Site) -> None:
    file = await site.client.get(await make_file(site, title='Grüner Tee "新茶"'))

    header = file.headers["content-disposition"]
    assert "filename*=UTF-8''" in header
    assert header.isascii()
    assert "%E6%96%B0%E8%8C%B6" in header


CHANGED_PATHS: list[Callable[[str], str]] = [
    lambda path: path.replace("/files/", "/files/9"),
    lambda path: path.partition("?")[0],
    lambda path: path[:-1] + ("0" if path[-1] != "0" else "1"),
    lambda path: path.replace("until=1", "until=2"),
    lambda path: path.replace("until=", "until=٣"),
    lambda path: "/files/x?" + path.partition("?")[2],
    lambda path: "/files/" + "9" * 40 + "?" + path.partition("?")[2],
]


async def test_a_link_that_was_changed_finds_nothing(site: Site, subtests: pytest.Subtests) -> None:
    path = await make_file(site)
    for change in CHANGED_PATHS:
        with subtests.test(change(path)):
            answer = await site.client.get(change(path))

            assert answer.status_code == 404
            message = "There is no such file, or its link has expired; ask for a new link."
            assert answer.json()["error"]["message"] == message


CHANGES = {
    "changed": lambda content: b"X" + content[1:],
    "cut": lambda content: content[:-3],
    "longer": lambda content: content + b"more",
    "gone": None,
}


async def spoil(site: Site, how: str) -> None:
    """Do this to the newest file behind the program's back."""
    key = await site.parley.value("SELECT minio_key FROM file_records ORDER BY id DESC LIMIT 1")
    path = site.parley.app.settings.parley_home / "files" / key
    change = CHANGES[how]
    if change is None:
        path.unlink()
    else:
        path.write_bytes(change(path.read_bytes()))


@pytest.mark.parametrize("content", ["# Oolong\n3 minutes", "tea " * 500_000], ids=["small", "large"])
async def test_a_link_to_a_file_that_is_not_what_was_stored_says_so_and_sends_no_byte_of_it(
    site: Site, content: str, subtests: pytest.Subtests
) -> None:
    for how in CHANGES:
        with subtests.test(how):
            await find_lost(site, how, content)


async def find_lost(site: Site, how: str, content: str) -> None:
    """Upload a file, do this to it, and ask for it by its link."""
    upload = {"filename": "tea.txt", "data": b64encode(content.encode()).decode()}
    site.parley.model.play([Answer("I have it.")])
    await site.posts("keep this", attachments=[upload])
    file_id = await site.parley.value("SELECT max(id) FROM file_records")
    link = urlsplit(site.parley.app.files.storage.sign(file_id))
    path = f"{link.path}?{link.query}"
    assert (await site.client.get(path)).text == content
    await spoil(site, how)

    answer = await site.client.get(path)

    assert answer.status_code == 410
    error = answer.json()["error"]
    assert error["code"] == ("file_lost" if how == "gone" else "file_damaged")
    assert "tea.txt" in error["message"]
    assert "sent" in error["message"]


@pytest.mark.parametrize("how", CHANGES)
async def test_the_model_is_told_when_a_file_is_not_what_was_stored(site: Site, how: str) -> None:
    await make_file(site)
    await spoil(site, how)
    file_id = await site.parley.value("SELECT max(id) FROM file_records")
    site.parley.model.play([Answer(tool_calls=[("file_manager__read_document", {"file_id": file_id})]), Answer("Oh.")])

    answer = (await site.posts("read it")).json()

    result = answer["tool_calls_made"][0]["result"]
    assert result["error"] is True
    assert ("gone" if how == "gone" else "changed or cut") in result["message"]


@pytest.mark.parametrize(("how", "mark"), [("gone", "lost from the file store"), ("cut", "damaged in the file store")])
async def test_a_reply_on_a_platform_says_which_file_is_not_what_was_stored(site: Site, how: str, mark: str) -> None:
    await make_file(site)
    await spoil(site, how)
    app = site.parley.app
    file_id = await site.parley.value("SELECT max(id) FROM file_records")
    link = app.files.storage.sign(file_id)

    uploads, others = await collect(app, [ReplyFile(file_id, "tea.md", "text/markdown", 20, link)], 1_000_000)

    assert uploads == []
    assert [other.filename for other in others] == [f"tea.md ({mark})"]
