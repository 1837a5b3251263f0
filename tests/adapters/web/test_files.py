"""Downloads behind signed links."""

from urllib.parse import urlsplit

import httpx
import pytest

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


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.replace("/files/", "/files/9"),
        lambda path: path.partition("?")[0],
        lambda path: path[:-1] + ("0" if path[-1] != "0" else "1"),
        lambda path: path.replace("until=1", "until=2"),
        lambda path: path.replace("until=", "until=٣"),
        lambda path: "/files/x?" + path.partition("?")[2],
        lambda path: "/files/" + "9" * 40 + "?" + path.partition("?")[2],
    ],
)
async def test_a_link_that_was_changed_finds_nothing(site: Site, change: object) -> None:
    assert callable(change)
    answer = await site.client.get(change(await make_file(site)))

    assert answer.status_code == 404
    assert answer.json()["error"]["message"] == "There is no such file, or its link has expired; ask for a new link."


async def test_a_file_whose_bytes_are_gone_is_not_found(site: Site) -> None:
    path = await make_file(site)
    await site.parley.app.files.storage.delete(await site.parley.value("SELECT minio_key FROM file_records"))

    assert (await site.client.get(path)).status_code == 404
