"""Calls that no provider has reported are on the ledger as estimates, each call once."""

import json

import pytest

from tests.support.money import CALL, Money

ESTIMATES = """
SELECT turn_id, purpose, model, input_tokens, output_tokens, cost_estimate, is_estimated FROM public.token_logs
"""


async def test_what_a_dead_turn_holds_is_charged_once_as_an_estimate_of_its_prompt(money: Money) -> None:
    await money.limit(user=10_000, server=10_000)
    await money.reserve(5000)

    abandon = "SELECT public.parley_abandon(1)"
    assert await money.connection.fetchval(abandon) == 5000 - 2048, "the allowed output is not charged"
    assert await money.connection.fetchval(abandon) == 0

    assert await money.user() == await money.server() == (2952, 0)
    ledger = [tuple(row) for row in await money.connection.fetch(ESTIMATES)]
    assert ledger == [(1, "answer", "unknown", 2952, 0, None, True)]
    assert await money.connection.fetchval("SELECT count(*) FROM public.budget_reservations") == 0


async def test_a_dead_turn_that_no_model_has_answered_names_the_model_that_is_asked_first(money: Money) -> None:
    await money.reserve(5000)

    await money.connection.fetchval("SELECT public.parley_abandon(1, 'openai/stub')")

    assert [row["model"] for row in await money.connection.fetch(ESTIMATES)] == ["openai/stub"]


STEP = """
INSERT INTO public.messages (conversation_id, turn_id, seq, role, content, token_count, tool_call_id, tool_name)
VALUES (1, 1, $1, $2, '{}', $3, $4, $5)
"""


async def test_a_dead_turn_that_was_in_its_middle_is_charged_its_last_call_and_the_results_since(money: Money) -> None:
    await money.reserve(5000)
    for seq, role, tokens, tool in (
        (0, "user", 1000, None),
        (1, "assistant", 7, None),
        (2, "tool_call", 20, "stage.read"),
        (3, "tool_result", 300, "stage.read"),
    ):
        await money.connection.execute(STEP, seq, role, tokens, tool and "a", tool)
    # A model call's results are reserved before they are known, at far more tokens than they have.
    await money.settle((1100, 30), reserve=90_000)

    assert await money.connection.fetchval("SELECT public.parley_abandon(1)") == 1100 + 30 + 300

    rows = await money.connection.fetch(f"{ESTIMATES} ORDER BY id")
    assert [(row["model"], row["input_tokens"], row["is_estimated"]) for row in rows] == [
        ("openai/stub", 1100, False),
        ("openai/stub", 1430, True),
    ]


@pytest.mark.parametrize("times", [1, 2], ids=["settled late", "settled late, twice"])
async def test_a_call_whose_reservation_expired_while_it_ran_replaces_its_estimate(money: Money, times: int) -> None:
    await money.limit(user=10_000, server=10_000)
    reserved = await money.reserve(5000)
    assert reserved is not None
    await money.connection.execute("UPDATE public.budget_reservations SET expires_at = now() - interval '1 second'")
    await money.connection.fetchval("SELECT public.parley_expire_reservations()")
    estimated = await money.user()

    call = CALL | {"input_tokens": 40, "output_tokens": 2, "reservation_id": reserved["reservation_id"]}
    for _ in range(times):
        await money.row("SELECT * FROM public.parley_settle(1, 2, $1, 0, NULL, 60)", json.dumps([call]))

    assert estimated == (2952, 0)
    assert await money.user() == await money.server() == (42, 0)
    rows = await money.connection.fetch(ESTIMATES)
    assert [(row["input_tokens"], row["output_tokens"], row["is_estimated"]) for row in rows] == [(40, 2, False)]


async def test_a_payment_whose_acknowledgement_was_lost_may_be_repeated(money: Money) -> None:
    await money.limit(user=10_000, server=10_000)
    reserved = await money.reserve(5000)
    assert reserved is not None
    call = CALL | {"input_tokens": 40, "output_tokens": 2, "reservation_id": reserved["reservation_id"]}
    paid = "SELECT * FROM public.parley_settle(1, 2, $1, 70, NULL, 60)"

    first, second = [await money.row(paid, json.dumps([call])) for _ in range(2)]

    assert await money.user() == await money.server() == (42, 70)
    assert await money.connection.fetchval("SELECT count(*) FROM public.token_logs") == 1
    assert first is not None
    assert second is not None
    reservation_id = await money.connection.fetchval("SELECT id FROM public.budget_reservations")
    assert first["reservation_id"] != second["reservation_id"] == reservation_id


OPEN_CALL = """
INSERT INTO public.messages (conversation_id, turn_id, seq, role, content, tool_call_id, tool_name)
VALUES (1, 1, 0, 'tool_call', '{}', 'a', 'stage.read')
"""
PENDING_FILE = """
INSERT INTO public.file_records (user_id, conversation_id, turn_id, filename, minio_key, mime_type, size_bytes, status)
VALUES (1, 1, 1, 'notes.txt', 'k', 'text/plain', 1, 'pending')
"""


@pytest.mark.parametrize("unfinished", [OPEN_CALL, PENDING_FILE], ids=["a tool call", "a file"])
async def test_a_dead_turn_that_had_not_sent_its_next_request_gives_back_what_it_holds(
    money: Money, unfinished: str
) -> None:
    await money.limit(user=10_000)
    await money.reserve(5000)
    await money.connection.execute(unfinished)

    assert await money.connection.fetchval("SELECT public.parley_abandon(1)") == 0

    assert await money.user() == await money.server() == (0, 0)
    assert await money.connection.fetch(ESTIMATES) == []


async def test_reservations_that_have_expired_are_charged_as_estimates_and_others_stay(money: Money) -> None:
    await money.limit(user=10_000)
    await money.reserve(5000)
    await money.reserve(30, turn=2, attempt=1)
    await money.connection.execute(
        "UPDATE public.budget_reservations SET expires_at = now() - interval '1 second' WHERE turn_id = 1"
    )

    expire = "SELECT public.parley_expire_reservations()"
    assert [await money.connection.fetchval(expire) for _ in range(2)] == [1, 0]

    assert (await money.user(), await money.server()) == ((2952, 30), (2952, 0))
    assert [(row["turn_id"], row["is_estimated"]) for row in await money.connection.fetch(ESTIMATES)] == [(1, True)]


async def test_the_ledger_marks_only_the_calls_that_are_estimates(money: Money) -> None:
    calls = json.dumps([CALL | {"input_tokens": n, "output_tokens": 0, "is_estimated": n == 2} for n in (1, 2)])

    await money.row("SELECT * FROM public.parley_settle(1, 2, $1, 0, NULL, 60)", calls)
    await money.settle((3, 0))

    rows = await money.connection.fetch(f"{ESTIMATES} ORDER BY id")
    assert [(row["input_tokens"], row["is_estimated"]) for row in rows] == [(1, False), (2, True), (3, False)]


@pytest.mark.parametrize(("created_at", "charged"), [("now()", 0), ("now() - interval '1 second'", 5000)])
async def test_the_call_that_a_tool_of_a_dead_turn_makes_is_charged_and_that_which_follows_the_tool_is_not(
    money: Money, created_at: str, charged: int
) -> None:
    async with money.connection.transaction():
        # The turn reserves for its next call together with the calls of tools, a tool reserves while it runs.
        await money.connection.execute(OPEN_CALL)
        await money.connection.execute(f"UPDATE public.messages SET created_at = {created_at}")  # noqa: S608  # our own
        await money.reserve(5000)

    assert await money.connection.fetchval("SELECT public.parley_abandon(1)") == charged

    rows = [(row["purpose"], row["input_tokens"]) for row in await money.connection.fetch(ESTIMATES)]
    assert rows == ([("tool", 5000)] if charged else [])
    assert await money.user() == (charged, 0)
