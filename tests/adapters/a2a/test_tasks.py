"""Tasks after they were given: cancelled, followed, found again."""

import asyncio
from contextlib import aclosing
from itertools import product

import pytest
from a2a.types.a2a_pb2 import SubscribeToTaskRequest
from a2a.utils.errors import TaskNotCancelableError, TaskNotFoundError, UnsupportedOperationError

from shared.db.database import Address
from shared.settings import Settings
from tests.adapters.a2a.callers import (
    ANN,
    GENERATIONS,
    Heard,
    Peer,
    asked_the_model,
    call,
    connected,
    ended,
    hanging,
    message,
    state,
    text_of,
)
from tests.adapters.web.conftest import Site, open_site
from tests.standins.openai_api import Answer
from tests.support.eventually import eventually
from tests.support.parley import open_parley


async def test_cancelling_ends_the_turn(peer: Peer, site: Site) -> None:
    site.parley.model.play(hanging)
    async with aclosing(peer.stream("think hard")) as stream:  # type: ignore[type-var]  # it is a generator
        first = await anext(stream)
        await asked_the_model(site)
        task = await peer.cancels(first.task.id)
        rest = [update async for update in stream]

    assert state(task) == "canceled"
    assert state(rest[-1].status_update) == "canceled"
    assert await site.parley.value("SELECT status FROM turns") == "cancelled"
    assert await site.parley.value("SELECT tokens_reserved FROM users") == 0


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_a_message_that_waits_is_withdrawn_and_the_one_before_it_goes_on(generation: str, site: Site) -> None:
    site.parley.model.play(hanging)
    async with connected(site, generation, person="ann") as ann, connected(site, generation, person="bob") as bob:
        first = asyncio.create_task(ann.says("first", context_id="c"))
        await asked_the_model(site)
        second = asyncio.create_task(bob.says("second", context_id="c", message_id="m-2"))
        rows = await eventually(lambda: site.parley.sql("SELECT id FROM inbox WHERE platform_message_id = 'm-2'"))
        task_id = str(rows[0].id)

        assert state(await bob.cancels(task_id)) == "canceled"
        assert (await second).states[-1] == "canceled"
        assert not first.done()

        await ann.cancels(str(await site.parley.value("SELECT min(id) FROM inbox")))
        assert (await first).states[-1] == "canceled"
    assert await site.parley.value("SELECT count(*) FROM turns") == 1


async def test_what_has_ended_can_not_be_cancelled_or_followed(peer: Peer) -> None:
    heard = await peer.says("hello")

    with pytest.raises(TaskNotCancelableError):
        await peer.cancels(heard.task_id)
    with pytest.raises(UnsupportedOperationError, match="has ended"):
        await peer.follows(heard.task_id)
    with pytest.raises(UnsupportedOperationError, match="without taskId"):
        await peer.says("and now?", task_id=heard.task_id, context_id=heard.context_id)


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_a_task_of_another_caller_is_not_found(generation: str, site: Site) -> None:
    site.parley.model.play(hanging)
    async with (
        connected(site, generation, person="ann") as ann,
        connected(site, generation, person="bob") as bob,
        connected(site, generation) as nobody,
    ):
        hanging_task = asyncio.create_task(ann.says("a secret"))
        await asked_the_model(site)
        task_id = str(await site.parley.value("SELECT id FROM inbox"))
        for ask in (bob.task, bob.cancels, bob.follows, nobody.task, nobody.cancels, nobody.follows):
            with pytest.raises(TaskNotFoundError):
                await ask(task_id)
        with pytest.raises(TaskNotFoundError):
            await bob.says("and now?", task_id=task_id)

        assert (await ann.task(task_id)).history[0].parts[0].text == "a secret"
        assert state(await ann.cancels(task_id)) == "canceled"
        assert (await hanging_task).states[-1] == "canceled"
        with pytest.raises(TaskNotFoundError):
            await bob.task(task_id)


async def test_the_headers_name_whose_task_it_is_where_the_message_named_the_person(newer: Peer, site: Site) -> None:
    heard = await newer.says("hello", metadata={"parley/person": ANN})

    with pytest.raises(TaskNotFoundError):
        await newer.task(heard.task_id)
    async with connected(site, "1.0", person="ann") as ann:
        assert state(await ann.task(heard.task_id)) == "completed"


async def test_a_task_that_is_not_there_is_not_found(site: Site, subtests: pytest.Subtests) -> None:
    async with connected(site, "1.0") as newer, connected(site, "0.3") as older:
        asks = (newer.task, newer.cancels, newer.follows, older.task, older.cancels, older.follows)
        for task_id, ask in product(("7", "0", "-1", "99999999999999999999", "٣", "x", "1 OR true"), asks):
            with subtests.test(f"{ask} {task_id}"), pytest.raises(TaskNotFoundError):
                await ask(task_id)


async def test_a_message_of_another_adapter_is_no_task(newer: Peer, site: Site) -> None:
    await site.posts("hello")

    with pytest.raises(TaskNotFoundError):
        await newer.task(str(await site.parley.value("SELECT id FROM inbox")))


async def test_a_disconnected_peer_finds_its_task_again_with_what_was_written_meanwhile(peer: Peer, site: Site) -> None:
    may_end = asyncio.Event()
    site.parley.model.play([Answer("Told in many small pieces.", end=may_end)])
    async with aclosing(peer.stream("hello")) as stream:  # type: ignore[type-var]  # it is a generator
        task_id = (await anext(stream)).task.id
        async for update in stream:
            if update.HasField("artifact_update"):
                break

    followed = Heard([])
    async for update in peer.client.subscribe(SubscribeToTaskRequest(id=task_id)):
        followed.updates.append(update)
        # As long as the model writes, too.
        if followed.answer.startswith("Told"):
            may_end.set()

    assert followed.states[-1] == "completed"
    assert followed.answer == "Told in many small pieces."


async def test_another_process_knows_the_task(newer: Peer, site: Site, settings: Settings, address: Address) -> None:
    heard = await newer.says("hello")

    async with (
        open_parley(settings, address, site.parley.model, works=False) as second,
        open_site(second) as other,
        connected(other, "1.0") as client,
    ):
        assert text_of((await client.task(heard.task_id)).artifacts[0].parts) == "You said: hello"


async def test_a_disconnect_before_the_task_id_is_sent_ends_the_turn(site: Site) -> None:
    site.parley.model.play(hanging)
    asking = asyncio.create_task(site.client.post("/a2a", json=call("message/send", {"message": message("think")})))
    await asked_the_model(site)
    asking.cancel()

    await eventually(lambda: site.parley.sql("SELECT id FROM turns WHERE status = 'cancelled'"))


async def test_a_disconnect_from_a_stream_ends_nothing(newer: Peer, site: Site) -> None:
    site.parley.model.play([Answer("Told in many small pieces.", chunk_delay=0.2)])
    async with aclosing(newer.stream("hello")) as stream:  # type: ignore[type-var]  # it is a generator
        task_id = (await anext(stream)).task.id

    assert state(await ended(newer, task_id)) == "completed"
