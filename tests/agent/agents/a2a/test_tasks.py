"""Tasks handed to agents of other installations, over real HTTP: the official SDK's server, in every way it offers."""

import asyncio

import pytest
from google.protobuf.json_format import MessageToDict
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from agent.agents.delegation.peers import PeerAnswer
from agent.people.hops import installation_id
from shared.errors import ToolError
from tests.agent.agents.a2a.rough import STARTED, WAYS, Ask, Watched, broken, far_text, rough
from tests.standins.a2a_agent import Far, Swap, build_agent
from tests.support.eventually import eventually
from tests.support.parley import Parley


@pytest.mark.parametrize(("binding", "version", "streams"), WAYS)
async def test_a_task_is_done_by_an_agent_of_either_generation_and_its_no_is_an_error_with_its_words(
    binding: str, version: str, streams: bool, ask: Ask, far: Far, swap: Swap, url: str, parley: Parley
) -> None:
    swap.inner = build_agent(far, url, versions=(version,), binding=binding, streams=streams)

    answer = await ask("echo né 漢字 🦜")

    assert answer == PeerAnswer("Far says: né 漢字 🦜")
    assert (await ask("message hello")).text == "Just said: hello"
    assert (await ask("later 0.5")).text == "Far says: at last"
    for task in ("fail the oven is cold", "refuse the oven is cold"):
        with pytest.raises(ToolError, match="far did not do it: the oven is cold"):
            await ask(task)
    assert await parley.value("SELECT last_error FROM agents") is None


async def test_a_question_that_an_agent_asks_back_is_not_the_end(ask: Ask, far: Far, swap: Swap, url: str) -> None:
    swap.inner = build_agent(far, url)

    assert await ask("question Which oven?") == PeerAnswer("Which oven?", finished=False)


@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_a_thousand_chunks_are_put_together(version: str, ask: Ask, far: Far, swap: Swap, url: str) -> None:
    swap.inner = build_agent(far, url, versions=(version,))

    answer = await ask("stream 1000", seconds=100)

    assert answer.text == "".join(f"{number} né🦜 " for number in range(1000))


async def test_the_newer_generation_is_taken_when_both_are_offered(ask: Ask, far: Far, swap: Swap, url: str) -> None:
    swap.inner = build_agent(far, url, versions=("0.3", "1.0"))

    await ask("echo hello")

    assert far.headers[0]["a2a-version"] == "1.0"


async def test_data_and_files_come_with_the_answer(ask: Ask, far: Far, swap: Swap, url: str) -> None:
    agent = build_agent(far, url)
    agent.router.routes.insert(0, Route("/files/far.txt", far_text))
    swap.inner = agent

    answer = await ask(f"parts {url}/files/far.txt")

    assert answer.text == 'Here: \n{"sum": 4.0}\n'
    assert [(file.filename, file.content) for file in answer.files] == [
        ("table.csv", b"a,b\n"),
        ("far.txt", b"far away"),
    ]


async def test_hops_and_person_go_with_the_task(ask: Ask, far: Far, swap: Swap, url: str, parley: Parley) -> None:
    swap.inner = build_agent(far, url)
    await ask("echo one", hops=("@before", "researcher"), user_id=7)
    await ask("echo two", user_id=7, is_direct=True)
    await ask("echo three", user_id=8)

    here = installation_id(parley.app.secrets)
    result = [MessageToDict(message.metadata) for message in far.asked]
    assert result[0]["parley/trail"] == ["before", here, f"{here}/researcher"]
    assert result[1]["parley/trail"] == [here]
    persons = [metadata["parley/person"] for metadata in result]
    assert persons[0]["platform"] == "a2a"
    assert persons[0]["platform_user_id"] == persons[1]["platform_user_id"] != persons[2]["platform_user_id"]
    assert [person["is_direct"] for person in persons] == [False, True, False]
    assert persons[0]["platform_user_id"].rpartition("/")[2] != "7"


@pytest.mark.parametrize("version", ["1.0", "0.3"])
@pytest.mark.parametrize("streams", [True, False])
async def test_a_task_that_is_not_waited_for_any_more_is_cancelled_over_there(
    version: str, streams: bool, ask: Ask, far: Far, swap: Swap, url: str, peers: Watched
) -> None:
    swap.inner = build_agent(far, url, versions=(version,), streams=streams)
    asking = asyncio.ensure_future(ask("hang"))
    await far.hanging.wait()
    await eventually(peers.knows_the_task)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking

    async def look() -> list[str]:
        return far.cancelled

    assert len(await eventually(look)) == 1


async def test_a_stream_that_breaks_off_is_gone_on_with_by_asking_again(ask: Ask, swap: Swap, url: str) -> None:
    async def answer(request: Request) -> Response:
        if (await request.json())["method"] == "GetTask":
            artifact = {"artifactId": "a", "parts": [{"text": "done meanwhile"}]}
            task = {
                "id": "t-1",
                "contextId": "c-1",
                "status": {"state": "TASK_STATE_COMPLETED"},
                "artifacts": [artifact],
            }
            return JSONResponse({"jsonrpc": "2.0", "id": 1, "result": task})
        return StreamingResponse(broken(STARTED), media_type="text/event-stream")

    swap.inner = rough(url, answer)

    assert (await ask("anything")).text == "done meanwhile"


async def test_an_agent_may_be_away_for_seconds_while_it_is_asked_again(ask: Ask, swap: Swap, url: str) -> None:
    calls = 0

    async def answer(request: Request) -> Response:
        nonlocal calls
        if (await request.json())["method"] != "GetTask":
            return StreamingResponse(broken(STARTED), media_type="text/event-stream")
        calls += 1
        if calls <= 6:
            return Response(status_code=503)
        task = {"id": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_COMPLETED"}}
        artifacts = [{"artifactId": "a", "parts": [{"text": "back again"}]}]
        return JSONResponse({"jsonrpc": "2.0", "id": 1, "result": task | {"artifacts": artifacts}})

    swap.inner = rough(url, answer)

    assert (await ask("anything")).text == "back again"


async def test_an_error_of_the_protocol_is_told_in_the_agents_words(ask: Ask, swap: Swap, url: str) -> None:
    async def answer(_request: Request) -> Response:
        error = {"code": -32004, "message": "No more today. " + "x" * 5000}
        return JSONResponse({"jsonrpc": "2.0", "id": 1, "error": error})

    for streams in (True, False):
        swap.inner = rough(url, answer, streams=streams)
        with pytest.raises(ToolError, match="far said no: No more today") as result:
            await ask("anything")
        assert len(str(result.value)) < 700


async def test_many_tasks_at_once_keep_apart(ask: Ask, far: Far, swap: Swap, url: str) -> None:
    swap.inner = build_agent(far, url)

    answers = await asyncio.gather(*(ask(f"echo {number}") for number in range(30)))

    assert [answer.text for answer in answers] == [f"Far says: {number}" for number in range(30)]
