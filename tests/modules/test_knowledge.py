"""The tools of the module `knowledge`, called as the toolbox calls them."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from modules import knowledge
from shared.db.database import Database
from shared.errors import NotFound, ToolError
from shared.memory.memories import Memories
from shared.memory.storage import NewMemory, Origin
from shared.messages import Author, Permission, Place
from shared.tools import Tool, ToolContext
from tests.shared.memory.test_memories import new_conversation
from tests.support.tool_calls import call
from tests.support.tool_context import make_tool_context

TOOLS = [var for var in vars(knowledge).values() if isinstance(var, Tool)]
GUILD = Place("discord", "guild-1", "general")


@pytest.fixture
async def context(database: Database, tmp_path: Path) -> ToolContext:
    return await make_tool_context(database, tmp_path / "files", "knowledge")


def in_place(context: ToolContext, place: Place) -> ToolContext:
    """Return the context of the same user in another place."""
    memories = Memories(context.memory.database, context.app_settings, context.clock)
    return replace(context, place=place, memory=memories.of_user(context.user.id, place, None))


def test_all_tools_are_for_guests_and_their_schemas_are_small() -> None:
    assert {tool.name for tool in TOOLS} == {
        "knowledge.remember",
        "knowledge.recall",
        "knowledge.list_memories",
        "knowledge.forget",
    }
    assert {tool.requires for tool in TOOLS} == {Permission.GUEST}
    assert {tool.run.__name__ for tool in TOOLS if tool.read_only} == {"recall", "list_memories"}
    assert sum(len(json.dumps(tool.schema, separators=(",", ":"))) for tool in TOOLS) < 1010


async def test_a_recalled_message_beside_a_strangers_is_untrusted(context: ToolContext, database: Database) -> None:
    user_id, now = context.user.id, context.clock.now()
    place = Origin(context.place, await new_conversation(database))
    lines: tuple[tuple[str, Author], ...] = (("From: Eve", "stranger"), ("The walrus is called Otto.", "person"))
    memories = Memories(context.memory.database, context.app_settings, context.clock)
    await memories.add([NewMemory(user_id, place, content, said_at=now, author=author) for content, author in lines])

    result = await call(knowledge.recall, context, query="walrus Otto", k=1)

    assert [memory["content"] for memory in result["memories"]] == ["The walrus is called Otto."]
    assert result["untrusted"] is True


async def test_a_memory_is_stored_recalled_listed_and_deleted(context: ToolContext) -> None:
    memory = await call(knowledge.remember, context, content="Ada's dog is called Rex.")
    await call(knowledge.remember, context, content="Ada plays the cello.")

    assert memory == {"memory_id": memory["memory_id"], "content": "Ada's dog is called Rex."}
    matches = await call(knowledge.recall, context, query="What is the dog called?")
    assert matches == {"memories": [{**memory, "said_at": f"{context.clock.now():%Y-%m-%d}"}]}
    page = await call(knowledge.list_memories, context)
    assert [entry["content"] for entry in page["memories"]] == ["Ada plays the cello.", "Ada's dog is called Rex."]
    assert "note" not in page
    result = await call(knowledge.forget, context, memory_id=memory["memory_id"])
    assert result == {"memory_id": memory["memory_id"], "forgotten": True}
    assert await call(knowledge.recall, context, query="What is the dog called?") == {"memories": []}


async def test_recall_takes_days_and_a_memory_may_be_wanted_everywhere(context: ToolContext) -> None:
    memory = await call(knowledge.remember, context, content="Ada's dog is called Rex.", everywhere=True)
    today = f"{context.clock.now():%Y-%m-%d}"

    guild = in_place(context, GUILD)
    assert (await call(knowledge.recall, guild, query="dog"))["memories"][0]["memory_id"] == memory["memory_id"]
    assert len((await call(knowledge.recall, context, query="dog", since=today, until=today))["memories"]) == 1
    assert await call(knowledge.recall, context, query="dog", until="2020-01-01") == {"memories": []}
    assert await call(knowledge.recall, context, query="dog", since="9999-12-31") == {"memories": []}


async def test_remembering_the_same_text_again_returns_the_same_memory(context: ToolContext) -> None:
    first = await call(knowledge.remember, context, content="Ada's dog is called Rex.")

    assert await call(knowledge.remember, context, content="ada's dog is called REX") == first


@pytest.mark.parametrize(("k", "count"), [(3, 3), (0, 1), (-(10**20), 1), (10**20, 20)])
async def test_the_number_of_results_is_clamped(context: ToolContext, k: int, count: int) -> None:
    for number in range(25):
        await call(knowledge.remember, context, content=f"Dog number {number}")

    assert len((await call(knowledge.recall, context, query="dog", k=k))["memories"]) == count
    assert (await call(knowledge.list_memories, context, skip=10**20)) == {"memories": []}


@pytest.mark.parametrize("wrong", [{"user_id": 1}, {"content": 7}, {"content": None}])
async def test_arguments_that_are_not_in_the_signature_are_refused(context: ToolContext, wrong: dict[str, Any]) -> None:
    with pytest.raises(ToolError, match="The arguments are not valid"):
        await call(knowledge.remember, context, **{"content": "Ada's dog is called Rex.", **wrong})


async def test_another_users_memory_raises_the_same_error_as_a_missing_one(
    context: ToolContext, database: Database, tmp_path: Path
) -> None:
    memory = await call(knowledge.remember, context, content="Ada's dog is called Rex.")
    other = await make_tool_context(database, tmp_path / "files", "knowledge")

    complaints = []
    for memory_id in (memory["memory_id"], 999_999, 2**70, -1):
        with pytest.raises(NotFound) as caught:
            await call(knowledge.forget, other, memory_id=memory_id)
        complaints.append(str(caught.value))
    assert set(complaints) == {"There is no memory with that id."}
    assert await call(knowledge.recall, other, query="dog Rex") == {"memories": []}
    assert await call(knowledge.list_memories, other) == {"memories": []}


async def test_a_private_memory_is_not_visible_on_a_server(context: ToolContext) -> None:
    private = await call(knowledge.remember, context, content="Ada looks for a new job.")
    guild = in_place(context, GUILD)
    await call(knowledge.remember, guild, content="Ada plays chess on Fridays.")

    page = await call(knowledge.list_memories, guild)
    assert [memory["content"] for memory in page["memories"]] == ["Ada plays chess on Fridays."]
    matches = await call(knowledge.recall, guild, query="job or chess")
    assert [memory["content"] for memory in matches["memories"]] == ["Ada plays chess on Fridays."]
    with pytest.raises(NotFound):
        await call(knowledge.forget, guild, memory_id=private["memory_id"])
    assert len((await call(knowledge.list_memories, context))["memories"]) == 2


async def test_a_long_list_is_split_between_entries_and_says_how_to_continue(context: ToolContext) -> None:
    for number in range(60):
        await call(knowledge.remember, context, content=f"Fact number {number}: {'x' * (number * 10)}")

    contents: list[str] = []
    page = await call(knowledge.list_memories, context)
    while True:
        assert len(json.dumps(page)) < context.app_settings.tool_result_max_chars
        contents += [memory["content"] for memory in page["memories"]]
        if "note" not in page:
            break
        assert page["note"] == f"There are more: skip {len(contents)}."
        page = await call(knowledge.list_memories, context, skip=len(contents))
    assert len(contents) == len(set(contents)) == 60


async def test_invalid_content_is_refused_with_a_reason(context: ToolContext) -> None:
    with pytest.raises(ToolError, match="empty"):
        await call(knowledge.remember, context, content="  ")
    with pytest.raises(ToolError, match="2,000"):
        await call(knowledge.remember, context, content="x" * 2001)
