"""MCP servers that hang, die, lie and flood: that part is off and says so, and the rest serves."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agent.live.listener import Listener
from agent.tools.mcp.servers import GATHER_SECONDS, RemoteTools
from shared.db.database import Address
from tests.support.connections import connected
from tests.support.counted_database import CountedDatabase
from tests.support.eventually import eventually
from tests.support.forks import get_command
from tests.support.loopback import free_port
from tests.support.mcp_servers import STAND_IN, add_far, add_server, play, result, told_error, until
from tests.support.parley import Parley

pytestmark = pytest.mark.settings(default_guest_token_budget=1_000_000)
# Each note is sent by a transaction of its own, so far from the one before that it is heard alone.
FLOOD = """
DO $$ BEGIN
    FOR number IN 1..500 LOOP
        PERFORM pg_notify('parley_changes', 'mcp_servers'), pg_sleep(0.002);
        COMMIT;
    END LOOP;
    PERFORM pg_notify('parley_changes', 'over');
END $$
"""


async def test_a_server_that_was_killed_is_connected_again(parley: Parley) -> None:
    await add_far(parley)
    first = await result(parley, "far__pid")
    os.kill(first, signal.SIGKILL)

    async with asyncio.timeout(100):
        while isinstance(second := await result(parley, "far__pid"), dict):
            pass

    assert second != first


async def test_a_server_that_dies_in_the_middle_of_a_call_is_an_error_and_the_next_call_reaches_the_new_one(
    parley: Parley,
) -> None:
    await add_far(parley)

    assert "can't be reached" in (await result(parley, "far__leave"))["message"]
    assert await result(parley, "far__add", a=1) == 2


async def test_a_call_that_hangs_ends_at_its_time_limit_and_the_others_of_its_wave_are_answered(parley: Parley) -> None:
    await add_far(parley)
    # Only the call that hangs may take as little time as that; the other server is another program.
    await add_server(parley, "slow", seconds=1)
    await until(parley, lambda tool_names: "slow.hang" in tool_names)

    reply = await play(parley, ("slow__hang", {}), ("far__add", {"a": 1}), ("knowledge__list_memories", {}))

    hung, total, memories = [call.result for call in reply.tool_calls_made]
    assert hung["message"] == "slow.hang took longer than 1 seconds."
    assert total == 2
    assert "error" not in memories


async def test_a_result_of_fifty_megabytes_is_cut(parley: Parley) -> None:
    await add_far(parley)

    huge, large = [
        await result(parley, "far__repeat", text="0123456789", times=times) for times in (5_000_000, 100_000)
    ]

    assert huge["cut"] is True
    assert large["cut"] is True
    assert large["beginning"].startswith('"0123456789')
    assert all(len(json.dumps(output)) <= parley.app.settings.tool_result_max_chars for output in (huge, large))


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import time; time.sleep(600)", "did not answer within"),
        ("import sys; sys.exit('no licence')", "no licence"),
        ("print('{}\\n' * 10); raise SystemExit", "It ended"),
        ("import os\nwhile True: os.write(1, b'{}\\n' * 9999)", "floods"),
        ("import os\nwhile True: os.write(1, b'x' * 9999)", "more than"),
        ("import os\nwhile True: os.write(2, b'x\\n' * 9999)", "floods"),
    ],
    ids=["hangs", "ends", "greets and ends", "floods with lines", "floods with one line", "floods with complaints"],
)
async def test_a_server_that_is_no_good_is_off_and_says_why_while_the_rest_serves(
    program: str, reason: str, parley: Parley
) -> None:
    await add_server(parley, "near")
    await add_server(parley, "bad", ("-c", program))

    await until(parley, lambda tool_names: "near.add" in tool_names)
    assert await result(parley, "near__add", a=1) == 2
    assert reason in await told_error(parley)
    assert await result(parley, "near__add", a=1) == 2


@asynccontextmanager
async def served_over_http(port: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the stand-in over HTTP; ready when its port answers."""
    process = await asyncio.create_subprocess_exec(
        *get_command(STAND_IN), "--port", str(port), stderr=asyncio.subprocess.DEVNULL
    )

    async def answers() -> bool:
        try:
            _reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        writer.close()
        await writer.wait_closed()
        return True

    try:
        await eventually(answers)
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_streamable_http_serves_the_same_and_is_connected_again(parley: Parley) -> None:
    port = free_port()
    await parley.sql("INSERT INTO personas (name, system_prompt, is_default) VALUES ('P', 'Be brief.', true)")
    async with served_over_http(port):
        await parley.sql(
            "INSERT INTO mcp_servers (name, transport, url, required_permission, reads_untrusted)"
            " VALUES ('web', 'http', :url, 'guest', false)",
            url=f"http://127.0.0.1:{port}/mcp",
        )
        await until(parley, lambda tool_names: "web.add" in tool_names)

        assert await result(parley, "web__add", a=1) == 2
        assert (await result(parley, "web__refuse", reason="No."))["message"].endswith(": No.")
        large = await result(parley, "web__repeat", text="0123456789", times=5_000_000)
        assert "larger than 4,194,304 bytes" in large["message"]
        assert await result(parley, "web__add", a=2) == 3
        await result(parley, "web__reword", description="Sum.")
        await until(parley, lambda tool_names: "web.add" not in tool_names)

    # Results of tools that are gone may be anybody's words, after which a yes is asked for.
    await parley.sql("UPDATE conversations SET window_turn_id = (SELECT max(id) + 1 FROM turns)")
    assert "can't be reached" in (await result(parley, "web__pid"))["message"]

    async def answers_again() -> bool:
        return isinstance(await result(parley, "web__pid"), int)

    async with served_over_http(port):
        await eventually(answers_again)


async def test_a_flood_of_notes_by_any_login_makes_no_flood_of_readings(address: Address) -> None:
    database = CountedDatabase(address)
    events, tools, is_over = Listener(database, ["a key"]), RemoteTools(database), asyncio.Event()
    events.on_change(tools.note_change)
    events.on_change(lambda table: is_over.set() if table == "over" else None)
    running = asyncio.create_task(tools.run())
    began = asyncio.get_running_loop().time()
    await events.start()

    async def count() -> int:
        return sum("FROM mcp_servers" in statement for statement in database.statements)

    await eventually(count)
    async with connected(address, role="parley_readonly") as reader:
        await reader.execute(FLOOD)
    await asyncio.wait_for(is_over.wait(), 60)
    assert await count() <= 2 + (asyncio.get_running_loop().time() - began) / GATHER_SECONDS

    await events.close()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await database.close()
