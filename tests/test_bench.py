"""The calculations of the benchmark; running it tests its programs."""

import json
from io import StringIO

import pytest
from rich.console import Console
from typer.core import TyperGroup

from adapters.cli.registry import COMMANDS, GROUPS, load
from adapters.web.api.sse import frame
from tests.bench.__main__ import add_line, build_table
from tests.bench.against import read_figures
from tests.bench.capacity import Costs, simulate
from tests.bench.commands import ALONE, CALLS
from tests.bench.figures import Figure, missed
from tests.bench.load import Load, Run, drive, merged, percentile
from tests.bench.model import chunks, mark, next_answer, stamped
from tests.bench.prefix import share_kept, share_of_new
from tests.bench.statements import Transaction, count
from tests.bench.streams import Stream, count_at_once, to_figures


def test_a_goal_is_about_the_ratio_where_there_is_a_floor() -> None:
    near = Figure("turn", 8.0, "ms", floor=1.0, at_most=9)
    far = Figure("turns", 5.0, floor=100.0, at_least=0.06)
    heavy = Figure("memory", 180, "MB", at_most=170)

    assert near.is_reached
    assert missed([near, far, heavy, Figure("no goal", 1.0)]) == [far, heavy]
    assert far.goal == "≥ 0.06 x"


def test_the_figures_of_another_revision_are_read_from_the_table_that_it_prints() -> None:
    table, output = build_table(), StringIO()
    add_line(table, Figure("turn without tools, p50", 8.25, "ms", floor=1.5, at_most=9))
    add_line(table, Figure("p99 / p50", 1.94, at_most=2))
    Console(file=output, width=120).print(table)

    assert read_figures(output.getvalue()) == {
        "turn without tools, p50": (8.25, "ms"),
        "turn without tools, p50 (floor)": (1.5, "ms"),
        "p99 / p50": (1.94, ""),
    }


def test_each_command_of_the_shell_is_measured() -> None:
    names = set(COMMANDS)
    for group in (*GROUPS, "slack"):
        command = load(group)
        assert isinstance(command, TyperGroup)
        names |= {f"{group} {name}" for name in command.commands}

    assert {name.removesuffix(" alone") for name in CALLS | ALONE} == names


async def test_every_client_runs_its_turns() -> None:
    turns: list[tuple[int, int]] = []

    async def turn(client: int, number: int) -> None:
        turns.append((client, number))

    run = await drive(Load(clients=3, turns_each=2), turn)

    assert sorted(turns) == [(client, number) for client in range(3) for number in range(2)]
    assert len(run.latencies) == 6


def test_runs_of_one_load_are_merged() -> None:
    whole = merged([Run((1.0, 2.0), 2.0, 0.1), Run((9.0,), 1.0, 0.2)])

    assert (whole.per_second, percentile(whole.latencies, 50), percentile(whole.latencies, 99)) == (1.0, 2.0, 9.0)
    assert whole.cpu_per_thousand == pytest.approx(100)


def test_the_model_calls_as_many_tools_as_the_message_says_and_answers_after_their_results() -> None:
    prompt = {"role": "user", "content": mark(tools=3, delay=500)}
    message, wait = next_answer({"messages": [prompt]})
    answer, _ = next_answer({"messages": [prompt, message, {"role": "tool", "content": "{}"}]})

    assert (len(message["tool_calls"]), wait) == (3, 0.5)
    assert answer["content"]


def test_a_streamed_answer_comes_in_a_hundred_pieces_that_make_the_whole() -> None:
    prompt = {"role": "user", "content": mark(tools=2, tool="bench__nap")}
    reply, _ = next_answer({"messages": [{"role": "user", "content": "hello"}]})
    message, _ = next_answer({"messages": [prompt]})
    deltas = [json.loads(chunk.split(b"data: ")[1])["choices"][0]["delta"] for chunk in chunks(reply)]
    [call] = [json.loads(chunk.split(b"data: ")[1])["choices"][0]["delta"] for chunk in chunks(message)[:-1]]

    assert len(deltas) == 101
    assert "".join(delta.get("content", "") for delta in deltas) == reply["content"]
    assert [tool_call["function"]["name"] for tool_call in call["tool_calls"]] == ["bench__nap"] * 2


def test_the_share_of_a_prompt_that_is_cached_ends_at_the_first_difference() -> None:
    assert share_of_new(["abcd", "abxxxxxx"]) == 0.25
    assert share_kept(["abcd", "abcdefgh", "abcdefghij"]) == 1


def test_statements_of_the_queue_are_counted_separately() -> None:
    transactions = [
        Transaction("parley, process 1", ("SELECT * FROM parley_accept(…)",)),
        Transaction("parley, process 1", ("SELECT inbox.id …", "INSERT INTO turns …")),
        Transaction("parley, process 1", ("UPDATE workers …",)),
        Transaction("parley, process 1", ("SELECT … FROM parley_finish_jobs($1)",)),
    ]

    counted = count(transactions, turns=1)

    assert (counted.own, counted.own_transactions, counted.all, counted.all_transactions) == (2, 1, 5, 4)


def test_the_capacity_keeps_cores_free_and_flushes_commits_together() -> None:
    costs = Costs(own=0.004, postgres=0.003, wal=20_000, stored=8_000, flush=0.002)
    few, many = simulate(costs, 10, turns=2_000), simulate(costs, 1_000, turns=2_000)

    assert (few.worker_cores, few.postgres_cores) == (1, 1)
    assert (many.worker_cores, many.postgres_cores) == (7, 5)
    # Two flushes a turn in one process, and no more than one at a time.
    assert few.flushes == pytest.approx(20, rel=0.1)
    assert many.flushes <= 1 / costs.flush
    # What a turn costs itself takes as long at any rate.
    assert few.middle >= 1000 * 2 * costs.flush
    assert few.middle <= few.tail


def frames_of(*texts: str) -> bytes:
    return b"".join(frame("text_delta", {"text": text}) for text in texts) + frame("message", {"content": "9:9.0000"})


def test_what_a_reader_of_a_stream_misses_or_gets_in_another_order_is_counted() -> None:
    whole = frames_of("0:1.0000 1:1.0", "250 2:1.0500")
    cut = whole.index(b"250 2")
    streams = [
        Stream([(1.1, whole[:cut]), (1.2, whole[cut:])]),
        Stream([(1.1, frames_of("0:1.0000", "2:1.0500"))]),
        Stream([(1.1, frames_of("1:1.0250", " 0:1.0000 ", "2:1.0500"))]),
    ]

    numbers, delays = streams[0].list_delays()
    assert numbers == [0, 1, 2]
    assert delays == pytest.approx([100, 175, 150])
    figures = {figure.name: figure.value for figure in to_figures(streams, 3, 2.0, [1.0, 2.0, 3.0])}
    assert figures["streams with lost or reordered pieces"] == 2
    assert (figures["deltas"], figures["the model's pieces"]) == (7 / 2, 8 / 2)
    assert figures["CPU for 1,000 deltas: workers"] == pytest.approx(2 / 7 * 1000)


def test_so_many_are_at_once_as_overlap() -> None:
    assert count_at_once([(0, 2), (1, 3), (2.5, 4), (3.5, 5)]) == 2


def test_a_stamped_stream_has_numbered_pieces() -> None:
    *pieces, last = stamped(3)
    texts = [json.loads(piece.split(b"data: ")[1])["choices"][0]["delta"]["content"] for piece in pieces]
    assert [text.partition(":")[0] for text in texts] == ["0", "1", "2"]
    assert b"usage" in last
