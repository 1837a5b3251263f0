"""The ledger and what limits have counted agree, whatever is paid twice, late, or for somebody who is gone."""

import asyncio
import json
from typing import Any

import asyncpg
import pytest

from shared.db.database import Address
from tests.support.connections import connected, until_somebody_waits
from tests.support.money import CALL, Money

LIMITS = """
INSERT INTO public.budgets (kind, token_limit, cost_limit) VALUES ('installation', 1000000, 1000);
INSERT INTO public.budgets (kind, period, token_limit, platform, platform_server_id)
VALUES ('server', 'day', 1000000, 'discord', 's');
INSERT INTO public.budgets (kind, period, token_limit, user_id) VALUES ('person', 'day', 1000000, 1);
"""
DIFFERENT = "SELECT subject, id, counter, counted::float, ledger::float FROM public.parley_budget_differences()"
EVERY_COUNTER = """
SELECT tokens_used, tokens_reserved, cost_used::float, cost_reserved::float FROM public.budgets
UNION ALL SELECT tokens_used_this_month, tokens_reserved, 0, 0 FROM public.users
UNION ALL SELECT tokens_used_this_month, tokens_reserved, 0, 0 FROM public.servers
"""
# All that was ever counted was so at an earlier time, in the period before.
PERIOD_ENDS = """
UPDATE public.token_logs SET created_at = created_at - interval '40 days';
UPDATE public.users SET budget_reset_at = now() - interval '1 s';
UPDATE public.servers SET budget_reset_at = now() - interval '1 s';
UPDATE public.budgets SET resets_at = now() - interval '1 s';
"""


@pytest.fixture
async def limited(money: Money) -> Money:
    """Ann's account with limits of all kinds, which hold for both of her turns or for one."""
    await money.limit(user=1_000_000, server=1_000_000)
    await money.connection.execute(LIMITS)
    return money


def call(reservation: int | None, tokens: int, **fields: Any) -> dict[str, Any]:
    """Return a call for the ledger."""
    return CALL | {"reservation_id": reservation, "input_tokens": tokens, "output_tokens": 0} | fields


async def pay(money: Money, *calls: dict[str, Any], reserve: int = 0, turn: int = 1) -> dict[str, Any] | None:
    """Pay for calls of a turn."""
    attempt = 2 if turn == 1 else 1
    settle = "SELECT * FROM public.parley_settle($1, $2, $3, $4, 0.01, 60)"
    return await money.row(settle, turn, attempt, json.dumps(calls), reserve)


async def hold(money: Money, tokens: int = 100, turn: int = 1) -> int:
    """Reserve for a turn; return the reservation."""
    row = await money.reserve(tokens, turn=turn, attempt=2 if turn == 1 else 1, cost=0.01)
    assert row is not None
    return int(row["reservation_id"])


async def agree(money: Money) -> None:
    """Check that counters are the ledger's sums and the reservations', and none is negative or no number."""
    assert await money.connection.fetch(DIFFERENT) == []
    for row in await money.connection.fetch(EVERY_COUNTER):
        assert all(0 <= value < 2**60 for value in row), "neither negative nor NaN"


async def read_use(money: Money) -> set[int]:
    """Return what all limits have counted."""
    return {row[0] for row in await money.connection.fetch(EVERY_COUNTER)}


async def test_two_calls_that_name_one_reservation_are_one_row_that_every_limit_counts(limited: Money) -> None:
    reservation = await hold(limited)

    await pay(limited, call(reservation, 30), call(reservation, 50), call(None, 7))

    assert await read_use(limited) == {57}, "the later one is what the call was paid with"
    await agree(limited)


async def test_a_call_that_is_paid_again_beside_a_new_one_charges_each_to_its_own_limits(limited: Money) -> None:
    first = await hold(limited)
    await pay(limited, call(first, 30))
    await limited.connection.execute("DELETE FROM public.budgets WHERE kind = 'person'")
    second = await hold(limited)

    await pay(limited, call(first, 40), call(second, 5))
    await agree(limited)

    # On the web, where the server's limits do not count.
    third = await hold(limited, turn=2)
    await pay(limited, call(first, 10), call(third, 8), turn=2)

    await agree(limited)
    assert await limited.server() == (15, 0)
    assert await limited.user() == (23, 0)


async def test_what_is_paid_again_after_its_period_ended_costs_nothing_in_the_next_one(limited: Money) -> None:
    reservation = await hold(limited)
    await pay(limited, call(reservation, 30))
    await limited.connection.execute(PERIOD_ENDS)
    later = await hold(limited)
    await agree(limited)

    await pay(limited, call(reservation, 90), call(later, 4))
    assert await read_use(limited) == {4}
    await pay(limited, call(reservation, 1))

    assert await read_use(limited) == {4}
    await agree(limited)


async def test_a_payment_that_began_before_the_period_did_belongs_to_the_one_before(
    limited: Money, address: Address
) -> None:
    reservation = await hold(limited)
    async with connected(address, as_owner=False) as late, connected(address) as owner, late.transaction():
        await late.execute("SELECT now()")
        # The clock moves on between two transactions; so do the ends of periods, which pass now.
        ends = await owner.fetchval("SELECT clock_timestamp()")
        await owner.execute("UPDATE users SET budget_reset_at = $1", ends)
        await owner.execute("UPDATE servers SET budget_reset_at = $1", ends)
        await hold(limited, turn=2)
        await pay(limited, call(None, 3), turn=2)
        assert await limited.user() == (3, 100)
        paid = json.dumps([call(reservation, 50)])
        await late.execute("SELECT parley_settle(1, 2, $1, 0, NULL, 60)", paid)

    assert await limited.user() == (3, 0)
    await agree(limited)


async def test_an_end_of_a_period_that_an_admin_moves_far_away_makes_nothing_free(limited: Money) -> None:
    await limited.connection.execute("UPDATE public.users SET budget_reset_at = now() + interval '3 years'")
    await limited.connection.execute("UPDATE public.budgets SET resets_at = now() + interval '3 years'")

    await pay(limited, call(await hold(limited), 50))

    assert await read_use(limited) == {50}


async def test_a_period_that_ends_while_a_call_runs_leaves_nothing_held(limited: Money) -> None:
    reservation = await hold(limited)
    await limited.connection.execute(PERIOD_ENDS)

    await pay(limited, call(reservation, 30), reserve=70)
    await agree(limited)
    await limited.connection.execute(PERIOD_ENDS)
    await limited.row("SELECT public.parley_release(1)")

    await agree(limited)
    assert await limited.user() == (0, 0)


NONSENSE: tuple[dict[str, Any], ...] = (
    {"input_tokens": 2**31 - 1, "output_tokens": 2**31 - 1},
    {"input_tokens": 2**62, "cached_tokens": 2**70},
    {"input_tokens": -5, "output_tokens": -(2**62)},
    {"input_tokens": 1.5, "output_tokens": "NaN"},
    {"input_tokens": None, "output_tokens": None, "cached_tokens": None},
    {"cost": -1},
    {"cost": "NaN"},
    {"cost": "Infinity"},
    {"cost": "-Infinity"},
    {"cost": 10**30},
    {"is_estimated": None, "purpose": None},
)


async def test_no_nonsense_of_a_provider_stops_a_payment_or_breaks_a_counter(
    limited: Money, subtests: pytest.Subtests
) -> None:
    for number, nonsense in enumerate(NONSENSE, 1):
        with subtests.test(str(nonsense)):
            for _ in range(2):
                reservation = await hold(limited)
                await pay(limited, call(reservation, 5, **nonsense))
                await agree(limited)
                # Paid again.
                await pay(limited, call(reservation, 5, **nonsense))
                await agree(limited)
                await pay(limited, call(reservation, 5))
                await agree(limited)

            assert await read_use(limited) == {10 * number}


@pytest.mark.parametrize(
    ("tokens", "cost"), [(2**62, 1.0), (-1, 1.0), (5, "NaN"), (5, "Infinity"), (5, -1.0), (5, 1e30)]
)
async def test_no_estimate_is_held_that_limits_could_not_count(limited: Money, tokens: int, cost: Any) -> None:
    for _ in range(3):
        try:
            reserve = "SELECT * FROM public.parley_reserve(1, 1, 2, $1, $2::text::numeric, 60)"
            await limited.row(reserve, tokens, str(cost))
        except asyncpg.CheckViolationError:
            pass
        await agree(limited)
        await limited.row("SELECT public.parley_release(1)")
        await agree(limited)
    assert {row[1] for row in await limited.connection.fetch(EVERY_COUNTER)} == {0}


async def test_a_call_paid_by_two_processes_at_once_and_by_a_sweeper_counts_once(
    limited: Money, address: Address
) -> None:
    async with asyncpg.create_pool(**address.asyncpg_arguments(), min_size=6, max_size=6) as pool, asyncio.timeout(60):
        for number in range(15):
            reservation = await hold(limited)
            if number % 2:
                await limited.connection.execute(
                    "UPDATE public.budget_reservations SET expires_at = now() - interval '1 s'"
                )
            paid = json.dumps([call(reservation, 10)])
            await asyncio.gather(
                *(pool.fetch("SELECT parley_settle(1, 2, $1, 0, NULL, 60)", paid) for _ in range(3)),
                pool.fetch("SELECT parley_expire_reservations()"),
                pool.fetch("SELECT parley_abandon(1, 'openai/stub')"),
                pool.fetch("SELECT parley_release(1)"),
            )

            # Whoever was last: the worker's payment replaces an estimate, and is not replaced by one.
            await agree(limited)
            assert await limited.user() == (10 * (number + 1), 0)


GONE = {
    "deleted": "SET parley.delete_history = 'yes'; DELETE FROM users WHERE id = 1; RESET parley.delete_history",
    "erased": "INSERT INTO erasures (user_id) VALUES (1); SELECT parley_erase_person(max(id)) FROM erasures",
    "without turns": "DELETE FROM turns WHERE user_id = 1",
    "without places": "DELETE FROM turns; DELETE FROM conversations",
}


@pytest.mark.parametrize("way", GONE)
async def test_what_is_held_for_somebody_or_something_that_is_gone_goes_back_to_all_limits(
    limited: Money, owner: asyncpg.Connection, way: str
) -> None:
    await hold(limited)
    await hold(limited, turn=2)
    summary = "SELECT public.parley_charge(ROW(NULL, 2, NULL, NULL, true), NULL, 70, 0.5, 60)"
    await limited.connection.fetch(summary)

    await owner.execute(GONE[way])

    await agree(limited)
    reserved = 70 if way in ("deleted", "erased", "without turns") else 0
    assert await limited.connection.fetchval("SELECT max(tokens_reserved) FROM public.budgets") == reserved


async def test_what_a_turn_spends_whose_person_is_deleted_still_counts_for_the_others_limits(
    limited: Money, owner: asyncpg.Connection
) -> None:
    reservation = await hold(limited)
    await owner.execute(GONE["deleted"])

    row = await pay(limited, call(reservation, 30), reserve=50)

    assert row == {"admitted": True, "refusal": None, "reservation_id": None}
    await agree(limited)
    assert await limited.server() == (30, 0)


async def test_one_person_made_of_two_has_spent_what_both_have_in_the_period_that_counts(
    limited: Money, owner: asyncpg.Connection
) -> None:
    await owner.execute("""
    INSERT INTO users (id, display_name) VALUES (2, 'Bob');
    INSERT INTO user_platform_links (user_id, platform, platform_user_id)
    VALUES (1, 'discord', 'ann'), (2, 'slack', 'bob');
    UPDATE turns SET user_id = 2 WHERE id = 2;
    """)
    await pay(limited, call(None, 3), turn=2)
    await owner.execute("UPDATE token_logs SET created_at = now() - interval '28 days'")
    await owner.execute("UPDATE users SET budget_reset_at = now() + interval '5 days' WHERE id = 2")
    await pay(limited, call(None, 20), turn=2)
    await pay(limited, call(None, 100))
    await owner.execute("UPDATE turns SET status = 'answered', finished_at = now() WHERE id = 2")

    await owner.fetch("SELECT admin.merge_users('slack', 'bob', 'discord', 'ann')")

    assert await limited.user() == (120, 0), "what was spent before the period that ends first is no part of it"
    assert [row for row in await owner.fetch(DIFFERENT) if row["subject"] == "users"] == []


@pytest.mark.parametrize(
    "payment",
    [
        "SELECT * FROM parley_reserve(1, 2, 1, 100, 0.01, 60)",
        "SELECT parley_abandon(1, 'openai/stub')",
        "SELECT parley_expire_reservations()",
        "SELECT parley_charge_embeddings('openai/embed', ARRAY[1, 1], ARRAY[2, 1], ARRAY[1, 1], ARRAY[0.01, 0.01])",
    ],
)
async def test_whoever_pays_waits_for_an_erasure_and_locks_nothing_that_it_needs(
    limited: Money, owner: asyncpg.Connection, address: Address, payment: str
) -> None:
    await hold(limited)
    await owner.execute("UPDATE budget_reservations SET expires_at = now()")
    async with connected(address) as erasure, asyncio.timeout(60):
        async with erasure.transaction():
            await erasure.execute("SELECT FROM turns ORDER BY id FOR UPDATE")
            await erasure.execute("SELECT FROM conversations ORDER BY id FOR UPDATE")
            paying = asyncio.create_task(limited.connection.fetch(payment.replace("parley_", "public.parley_")))
            await until_somebody_waits(erasure)
            await erasure.execute("SELECT FROM users WHERE id = 1 FOR UPDATE")
            await erasure.execute("SELECT parley_lock_limits(NULL, ARRAY[1], ARRAY[1, 2, 3])")
        await paying

    await agree(limited)
