"""The primary dies and a standby is promoted: real servers, real promotions."""

import asyncio
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from functools import partial
from io import BytesIO

import pytest

from adapters.cli.check_database import Installation, check_servers
from adapters.cli.opening import prepare
from adapters.cli.serving import _wait_for_database
from adapters.web.health import find_obstacle
from agent.queue.inbox import Accepted
from shared.backup.database import DumpOptions, write_dump
from shared.db.connections import ReadOnlyDatabase
from shared.db.database import Address, DatabaseLost, check
from shared.db.migrations import run_alembic
from shared.db.programs import connection_string, find_program, list_dump_options
from shared.db.roles import ADMIN_ROLE
from shared.messages import AgentResponse
from shared.settings import Settings
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.openai_api.script import Body, last_user_text
from tests.support.connections import connected
from tests.support.parley import Parley, message, open_parley
from tests.support.replicas import CAUGHT_UP, Replicas, Server, make_server, replicas, server_folder

MESSAGES = 24


@pytest.fixture(scope="module")
def template() -> Iterator[Server]:
    """A stopped server with all tables."""
    with server_folder() as folder:
        yield asyncio.run(make_server(folder))


async def echo(body: Body, _number: int) -> Answer:
    """Answer with the question, so that an answer tells whose it is."""
    return Answer(f"re: {last_user_text(body).partition(chr(10))[0]}")


async def send(parley: Parley, numbers: range) -> None:
    """Store a message for each number, as an adapter does: again and again until it is stored."""
    for number in numbers:
        await store(parley, f"message {number}")


async def store(parley: Parley, text: str, *, user: str | None = None, adapter: str = "fake") -> Accepted:
    """Store a message, by default of somebody who has not written yet; the platform repeats it until it is stored."""
    event = message(text, user=user or text, adapter=adapter, platform=adapter, event_id=text)
    async with asyncio.timeout(60):
        while True:
            try:
                return await parley.app.inbox.accept(event)
            except DatabaseLost:
                await asyncio.sleep(0.05)


async def until(parley: Parley, question: str) -> None:
    """Return when the database answers this with yes."""
    async with asyncio.timeout(60):
        while not await is_so(parley, question):  # noqa: ASYNC110  # it tells nobody
            await asyncio.sleep(0.05)


async def is_so(parley: Parley, question: str) -> bool:
    """Return whether the database answers this with yes; it does not while it is away."""
    with suppress(DatabaseLost):
        return bool(await parley.value(question))
    return False


async def test_with_synchronous_replication_a_stream_of_turns_is_answered_once_each(
    template: Server, settings: Settings, model: OpenAIStub
) -> None:
    model.play(echo)
    async with replicas(template, is_synchronous=True) as pair, open_parley(settings, pair.address, model) as parley:
        sending = asyncio.create_task(send(parley, range(MESSAGES)))
        await parley.platform.wait_for(4)
        await pair.fail_over()
        await sending

        posts = await parley.platform.wait_for(MESSAGES)
        assert Counter(posts) == {f"re: message {number}": 1 for number in range(MESSAGES)}
        histories = "SELECT timeline, lost_answers, lost_messages FROM database_histories ORDER BY id"
        assert await parley.sql(histories) == [(1, 0, 0), (2, 0, 0)]


async def look_at_servers(pair: Replicas, settings: Settings) -> dict[str, tuple[str, str]]:
    """Return what `parley doctor` says of the servers and of failovers: level and text, by subject."""
    findings = check_servers(pair.address, Installation(settings, (), ()))
    return {finding.subject: (finding.level, finding.text) async for finding in findings}


async def lose_the_last_commits(pair: Replicas, parley: Parley) -> asyncio.Task[AgentResponse]:
    """Fail over to a standby that lacks three answers and two messages in work, and has the turn of another one.

    Return a task that waits for the answer to a lost one.
    """
    await send(parley, range(2))
    await parley.platform.wait_for(2)
    await store(parley, "slow and kept")
    await parley.model.until(3)
    await pair.first.until(CAUGHT_UP, "async")
    await pair.cut()
    await send(parley, range(2, 5))
    await parley.platform.wait_for(5)
    await store(parley, "slow and lost")
    call = asyncio.create_task(parley.ask("slow and lost, too"))
    await parley.model.until(8)
    await pair.fail_over()
    return call


async def test_what_asynchronous_replication_has_lost_is_told_and_its_ids_are_not_given_out_again(
    template: Server, settings: Settings, model: OpenAIStub, capsys: pytest.CaptureFixture[str]
) -> None:
    is_over, times = asyncio.Event(), list[datetime]()

    async def answer(body: Body, number: int) -> Answer:
        if "slow" in last_user_text(body):
            await is_over.wait()
        return await echo(body, number)

    model.play(answer)
    async with replicas(template, is_synchronous=False) as pair, open_parley(settings, pair.address, model) as parley:
        with parley.app.events.failovers.observed(times.append):
            call = await lose_the_last_commits(pair, parley)
            await until(parley, "SELECT count(*) = 2 AND max(lost_messages) = 5 FROM database_histories")

        # So long before the failure, platforms read messages again.
        assert [time < parley.app.clock.now() for time in times] == [True]
        assert await parley.value("SELECT lost_answers FROM database_histories WHERE timeline = 2") == 3
        assert "database_failed_over" in capsys.readouterr().out
        # Who waits for an answer over a connection hears that the message is gone.
        async with asyncio.timeout(60):
            assert (await call).error == "lost"
        is_over.set()
        # The platform repeats what was lost.
        await store(parley, "slow and lost")
        await send(parley, range(2, 5))
        posts = Counter(await parley.platform.wait_for(10))
        once = ("message 0", "message 1", "slow and kept", "slow and lost")
        twice = [f"message {number}" for number in range(2, 5)]
        assert posts == {f"re: {text}": 1 for text in once} | {f"re: {text}": 2 for text in twice}
        assert await parley.value("SELECT count(*) FROM turns WHERE id > 1000000 AND status = 'answered'") == 4
        assert await parley.value("SELECT count(*) FROM turns WHERE status = 'running'") == 0
        level, text = (await look_at_servers(pair, settings))["failover"]
        assert level == "warn"
        assert "gone or open again: 3; accepted messages that are gone: 5" in text


async def test_a_primary_that_was_left_behind_is_left_and_not_used_again_although_it_takes_writes(
    template: Server, settings: Settings, model: OpenAIStub
) -> None:
    model.play(echo)
    async with replicas(template, is_synchronous=False) as pair, open_parley(settings, pair.address, model) as parley:
        await send(parley, range(2))
        await parley.platform.wait_for(2)
        await pair.first.until(CAUGHT_UP, "async")
        # Nobody stops the first one, and all connections to it are fine.
        await pair.second.control("promote")
        await until(parley, "SELECT count(*) = 2 FROM database_histories")
        await send(parley, range(2, 4))
        # It stands first in the address of a process that begins now.
        async with open_parley(settings, pair.address, model, works=False) as later:
            await send(later, range(4, 6))
        await parley.platform.wait_for(6)

        async with connected(pair.first.address) as left_behind, connected(pair.second.address) as promoted:
            newer = "SELECT count(*) FROM inbox WHERE content >= 'message 2'"
            assert await left_behind.fetchval(newer) == 0
            assert await promoted.fetchval(newer) == 4
        level, text = (await look_at_servers(pair, settings))["servers"]
        assert level == "fail"
        assert f"127.0.0.1:{pair.first.port} (timeline 1) and 127.0.0.1:{pair.second.port} (timeline 2)" in text


async def test_of_two_servers_that_were_promoted_to_one_timeline_all_use_the_one_that_was_met_first(
    template: Server, settings: Settings, model: OpenAIStub
) -> None:
    model.play(echo)
    async with replicas(template, is_synchronous=False) as pair:
        await pair.fail_over()
        async with open_parley(settings, pair.address, model) as parley:
            await send(parley, range(2))
            # The one that was left behind is made a standby of nobody, and promoted as well.
            await pair.first.promote_alone()
            async with open_parley(settings, pair.address, model, works=False) as later:
                await send(later, range(2, 4))
                await until(parley, "SELECT count(*) = 4 FROM inbox")
            await parley.platform.wait_for(4)
        async with connected(pair.first.address) as twin, connected(pair.second.address) as promoted:
            assert await twin.fetchval("SELECT count(*) FROM inbox") == 0
            timelines = "SELECT array_agg(timeline ORDER BY id) FROM database_histories"
            assert await twin.fetchval(timelines) == await promoted.fetchval(timelines) == [1, 2]
            # No id means two things, should everybody have to use the other one.
            last = "SELECT last_value FROM pg_sequences WHERE sequencename = 'turns_id_seq'"
            assert await twin.fetchval(last) != await promoted.fetchval(last)


async def test_a_process_that_has_met_only_the_second_of_two_such_servers_moves_to_the_first(
    template: Server, settings: Settings, model: OpenAIStub
) -> None:
    model.play(echo)
    async with replicas(template, is_synchronous=False) as pair:
        await pair.fail_over()
        async with connected(pair.second.address) as promoted:
            await promoted.execute("SELECT parley_note_history()")
        await pair.second.kill()
        await pair.first.promote_alone()
        async with open_parley(settings, pair.address, model) as parley:
            await send(parley, range(2))
            await pair.second.start()
            await until(parley, "SELECT max(id) > 0 FROM inbox")
            await until(parley, f"SELECT inet_server_port() = {pair.second.port}")


async def until_said(capsys: pytest.CaptureFixture[str], text: str) -> None:
    """Return when this was written to the operator."""
    output = ""
    async with asyncio.timeout(60):
        while text not in output:
            await asyncio.sleep(0.02)
            output += capsys.readouterr().err


async def use_programs(address: Address) -> None:
    """Let psql, pg_dump and Alembic connect, by an address whose first server is a standby: they use the second."""
    psql = find_program("psql", is_embedded=True)
    with connection_string(address, role=ADMIN_ROLE) as target:
        process = await asyncio.create_subprocess_exec(psql, target, "-Atc", "SELECT pg_is_in_recovery()", stdout=PIPE)
        assert (await process.communicate())[0] == b"f\n"
    async with connected(address) as owner, owner.transaction(isolation="repeatable_read"):
        dump = BytesIO()
        snapshot = await owner.fetchval("SELECT pg_export_snapshot()")
        options, of_server = await list_dump_options(address)
        await asyncio.to_thread(
            write_dump, address, DumpOptions(owner.get_server_version().major, snapshot, options, of_server), dump
        )
        assert dump.getvalue().startswith(b"PGDMP")
    await asyncio.to_thread(run_alembic, address)


async def test_a_server_that_becomes_read_only_is_left_and_comes_back_as_a_standby_and_as_the_primary(
    template: Server, settings: Settings, model: OpenAIStub, capsys: pytest.CaptureFixture[str]
) -> None:
    model.play(echo)
    async with replicas(template, is_synchronous=False) as pair, open_parley(settings, pair.address, model) as parley:
        await send(parley, range(2))
        await parley.platform.wait_for(2)
        await pair.first.until(CAUGHT_UP, "async")
        # All connections stay open: only what they answer tells that this one takes no writes any more.
        await pair.first.set("default_transaction_read_only = on")
        await pair.second.control("promote")
        await send(parley, range(2, 4))
        assert Counter(await parley.platform.wait_for(4)) == {f"re: message {number}": 1 for number in range(4)}

        await pair.first.control("stop", "-m", "fast")
        await pair.first.follow(pair.second)
        with pytest.raises(ReadOnlyDatabase, match="it is a standby"):
            await check(pair.first.address)
        assert (await look_at_servers(pair, settings))["servers"] == (
            "ok",
            f"127.0.0.1:{pair.first.port}: it is a standby, or read-only; 127.0.0.1:{pair.second.port}: takes writes",
        )
        await use_programs(pair.address)
        await pair.second.kill()
        with pytest.raises(DatabaseLost) as lost:
            await parley.accept("who takes this?")
        assert "no server takes writes" in str(lost.value.__cause__)
        assert "no server takes writes" in str(await find_obstacle(parley.app))
        begin = partial(prepare, settings, pair.address)
        starting = asyncio.create_task(_wait_for_database(begin, asyncio.Event()))
        await until_said(capsys, "waiting for the database: DATABASE_URL: no server takes writes")
        await pair.first.control("promote")
        assert await starting
        await send(parley, range(4, 6))
        await parley.platform.wait_for(6)
        assert await parley.sql("SELECT timeline FROM database_histories ORDER BY id") == [(1,), (2,), (3,)]
