"""The platform of docs/platforms.md: a folder that nothing else knows of, and a conversation through it."""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import adapters
from adapters.base import Finding
from adapters.cli.opening import prepare
from adapters.cli.platforms import (
    build_accounts,
    build_platforms,
    examine_platforms,
    list_setting_names,
    read_all_settings,
)
from adapters.folders import list_folders
from adapters.tables import update_tables
from adapters.web.health import find_obstacle
from shared.db.database import Address
from shared.errors import ConfigurationError
from shared.settings import Settings, load_settings
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.connections import connected
from tests.support.eventually import PATIENCE
from tests.support.parley import Parley, open_parley
from tests.support.source_tree import ROOT

ERASE = (
    "I would erase your messages and my answers to them, your memories, your files and your linked accounts, on all"
    " platforms, and give you a signed receipt. This can't be undone."
    "\n\nTo do it, write /confirm 1; otherwise /confirm no."
)


@pytest.fixture
def mailbox(tmp_path: Path) -> Iterator[Path]:
    """The folder of the page, beside those of Parley; return where its messages are."""
    folder, messages = tmp_path / "adapters" / "mailbox", tmp_path / "messages"
    shutil.copytree(ROOT / "docs/examples/mailbox", folder)
    adapters.__path__.append(str(folder.parent))
    os.environ["MAILBOX_FOLDER"] = str(messages)
    yield messages
    del os.environ["MAILBOX_FOLDER"]
    adapters.__path__.remove(str(folder.parent))
    for name in [name for name in sys.modules if name.startswith("adapters.mailbox")]:
        del sys.modules[name]


@dataclass
class Writer:
    """Somebody who writes into the mailbox and reads what comes out."""

    messages: Path
    parley: Parley

    async def writes(self, number: int, **event: Any) -> None:
        whole = {"kind": "message", "id": f"event-{number}", "author": "writer", "room": "reeds"} | event
        draft = self.messages / "in" / f"{number}.draft"
        draft.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(whole), "utf-8")
        draft.rename(draft.with_suffix(".json"))

    async def reads(self, text: str, button: str = "") -> dict[str, str]:
        """Return the buttons of the message with this text, once it is there and has this button."""
        async with asyncio.timeout(PATIENCE):
            while (post := self._find(text, button)) is None:  # noqa: ASYNC110  # files tell nobody that they are there
                await asyncio.sleep(0.02)
        return post

    def _find(self, text: str, button: str) -> dict[str, str] | None:
        for path in sorted((self.messages / "out").glob("*.json")):
            posted = json.loads(path.read_text("utf-8"))
            if posted["text"] == text and (not button or button in posted["buttons"]):
                return dict(posted["buttons"])
        return None


@pytest.fixture
async def writer(mailbox: Path, settings: Settings, address: Address, model: OpenAIStub) -> AsyncIterator[Writer]:
    """A running Parley that listens to the mailbox, and somebody in it."""
    (platform,) = build_accounts("mailbox", settings)
    await prepare(settings, address)
    async with open_parley(settings, address, model, senders={"mailbox": platform}) as parley:
        listening = asyncio.create_task(platform.listen(parley.app))
        try:
            yield Writer(mailbox, parley)
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)


def test_a_folder_is_all_that_it_takes_to_be_known_with_its_settings(
    mailbox: Path, tmp_path: Path, settings: Settings
) -> None:
    assert list(list_folders()) == ["discord", "mailbox", "matrix", "slack"]
    assert {"MAILBOX_FOLDER", "MAILBOX_LIMIT"} <= set(list_setting_names())
    assert [platform.name for platform in build_platforms(settings)] == ["mailbox"]

    file = tmp_path / ".env"
    file.write_text("MAILBOX_FODLER=/tmp\n", "utf-8")
    with pytest.raises(ConfigurationError, match="unknown setting MAILBOX_FODLER; did you mean MAILBOX_FOLDER"):
        load_settings(file, more_names=list_setting_names())
    os.environ["MAILBOX_LIMIT"] = "many"
    try:
        with pytest.raises(ConfigurationError, match="MAILBOX_LIMIT is wrong: "):
            read_all_settings(settings)
    finally:
        del os.environ["MAILBOX_LIMIT"]


async def test_the_doctor_looks_at_it_and_without_its_folder_it_is_not_configured(
    mailbox: Path, settings: Settings
) -> None:
    findings = [platform async for platform in examine_platforms(settings)]
    assert findings == [("mailbox", Finding("ok", f"messages come from {mailbox / 'in'}"))]

    os.environ["MAILBOX_FOLDER"] = ""
    assert build_platforms(settings) == []
    with pytest.raises(ConfigurationError, match="mailbox is not configured; set MAILBOX_FOLDER to a folder"):
        build_accounts("mailbox", settings)


async def test_a_message_is_answered_in_parts_and_again_when_it_is_edited(writer: Writer, model: OpenAIStub) -> None:
    first, last = ("Entry. " * 71).strip(), "Ribbit."
    model.play([Answer(f"{first}\n{last}"), Answer("Quack.")])

    await writer.writes(1, text="What do writers say?")
    assert list(await writer.reads(last)) == ["🔄", "👍", "👎"]
    await writer.reads(first)

    await writer.writes(2, kind="edit", id="event-1", text="What do ducks say?")
    buttons = await writer.reads(last, "Answer the edited message")
    await writer.writes(3, kind="click", button=buttons["Answer the edited message"])
    await writer.reads("Quack.")
    assert "What do ducks say?" in str(writer.parley.model.requests[-1].body["messages"][-1]["content"])


async def test_a_click_is_for_the_person_who_asked_and_counts_once(writer: Writer, model: OpenAIStub) -> None:
    model.play([Answer("Entry.")])
    await writer.writes(1, text="hello")
    buttons = await writer.reads("Entry.")

    await writer.writes(2, kind="click", button=buttons["👍"], author="boat")
    await writer.reads("These buttons are for <@writer>.")
    await writer.writes(3, kind="click", button=buttons["👍"])
    await writer.reads("Thank you; that is noted.")
    assert await writer.parley.value("SELECT score FROM feedback") == 1


async def test_a_click_confirms_a_command(writer: Writer) -> None:
    await writer.writes(1, text="/erase me")
    buttons = await writer.reads(ERASE)

    await writer.writes(2, kind="click", button=buttons["No"])
    await writer.reads("Nothing was changed.")


async def test_a_command_is_answered_at_once_and_a_deleted_message_is_forgotten(
    writer: Writer, model: OpenAIStub
) -> None:
    model.play([Answer("Entry.")])
    await writer.writes(1, text="my secret")
    await writer.reads("Entry.")

    await writer.writes(2, kind="delete", id="event-1")
    await writer.writes(3, text="/nonsense")
    await writer.reads("There is no command nonsense; /help lists them all.")
    assert "my secret" not in str(await writer.parley.sql("SELECT content FROM inbox"))


async def test_its_own_table_comes_with_its_folder(
    mailbox: Path, settings: Settings, address: Address, model: OpenAIStub
) -> None:
    async with open_parley(settings, address, model, works=False) as parley:
        assert await find_obstacle(parley.app) == (
            "The tables of adapters/mailbox lack 0001_tables.sql; run: parley migrate."
        )
        assert await update_tables(address) == ["adapters/mailbox"]
        assert await update_tables(address) == []
        assert await find_obstacle(parley.app) is None
    async with connected(address) as owner:
        # What becomes of it when a server moves to another cell.
        name = "SELECT name, condition FROM parley_server_tables() WHERE name LIKE 'mailbox%'"
        assert await owner.fetch(name) == [("mailbox_writers", None)]


async def test_its_table_counts_what_is_written(writer: Writer, model: OpenAIStub) -> None:
    model.play([Answer("Entry."), Answer("Ribbit.")])
    for number, answer in enumerate(("Entry.", "Ribbit."), 1):
        await writer.writes(number, text="hello")
        await writer.reads(answer)

    assert await writer.parley.value("SELECT messages FROM mailbox_writers WHERE author = 'writer'") == 2
