"""The tasks of a person, listed for that person alone."""

from collections.abc import AsyncIterator

import pytest
from a2a.types.a2a_pb2 import ListTasksRequest, TaskState
from a2a.utils.errors import InvalidParamsError

from tests.adapters.a2a.callers import Peer, connected
from tests.adapters.web.conftest import Site
from tests.standins.openai_api import Answer


@pytest.fixture
async def ann(site: Site) -> AsyncIterator[Peer]:
    """A peer that calls for Ann."""
    async with connected(site, "1.0", person="ann") as peer:
        yield peer


async def test_a_caller_lists_its_own_tasks_alone(ann: Peer, site: Site) -> None:
    first, second = await ann.says("one"), await ann.says("two", context_id="desk")
    async with connected(site, "1.0", person="bob") as bob:
        await bob.says("mine")
        of_bob = await bob.client.list_tasks(ListTasksRequest(include_artifacts=True))

    tasks = await ann.client.list_tasks(ListTasksRequest(include_artifacts=True))
    in_context = await ann.client.list_tasks(ListTasksRequest(context_id="desk"))

    assert [task.id for task in tasks.tasks] == [second.task_id, first.task_id]
    assert tasks.total_size == 2
    assert [task.artifacts[0].parts[0].text for task in tasks.tasks] == ["You said: two", "You said: one"]
    assert [task.id for task in in_context.tasks] == [second.task_id]
    assert not in_context.tasks[0].artifacts
    assert [task.artifacts[0].parts[0].text for task in of_bob.tasks] == ["You said: mine"]


async def test_tasks_come_by_pages_and_by_state(ann: Peer, site: Site) -> None:
    for text in ("one", "two", "three"):
        await ann.says(text)
    await site.parley.sql("UPDATE users SET tokens_used_this_month = token_budget_monthly")
    await ann.says("four")

    first = await ann.client.list_tasks(ListTasksRequest(page_size=2, history_length=0))
    rest = await ann.client.list_tasks(ListTasksRequest(page_size=2, page_token=first.next_page_token))
    tasks = await ann.client.list_tasks(ListTasksRequest(status=TaskState.TASK_STATE_COMPLETED))
    rejected = await ann.client.list_tasks(ListTasksRequest(status=TaskState.TASK_STATE_REJECTED))

    assert [len(first.tasks), len(rest.tasks), first.total_size] == [2, 2, 4]
    assert rest.next_page_token == ""
    assert not first.tasks[0].history
    assert [task.history[0].parts[0].text for task in tasks.tasks] == ["three", "two", "one"]
    assert [task.history[0].parts[0].text for task in rejected.tasks] == ["four"]
    assert all(task.status.state == TaskState.TASK_STATE_REJECTED for task in rejected.tasks)


@pytest.mark.parametrize("wrong", [{"page_size": 0}, {"page_size": 101}, {"page_token": "x"}, {"history_length": -1}])
async def test_a_wrong_page_is_refused(ann: Peer, wrong: dict[str, int | str]) -> None:
    with pytest.raises(InvalidParamsError):
        await ann.client.list_tasks(ListTasksRequest(**wrong))  # type: ignore[arg-type]


async def test_peers_that_name_nobody_share_no_files_and_no_memories(site: Site) -> None:
    call = ("file_manager__create_document", {"title": "Code", "content": "4711", "format": "txt"})
    site.parley.model.play([Answer(tool_calls=[call]), Answer("Done.")])
    async with connected(site, "1.0") as peer:
        await peer.says("write it down")

    tool_names = {tool["function"]["name"] for tool in site.parley.model.requests[-1].body["tools"]}
    assert not {name for name in tool_names if name.startswith(("file_manager__", "knowledge__"))}
    assert await site.parley.value("SELECT count(*) FROM file_records") == 0
