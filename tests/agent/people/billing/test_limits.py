"""Rows of `budgets`: what each limits, which one refuses, and that many at once are never overspent."""

import asyncio
import json
import random
from datetime import date, timedelta
from typing import Any

import asyncpg
import pytest

from shared.db.database import Address
from tests.support.money import CALL, Money

PLACE = "'discord', 's'"
SUBJECTS = {
    "person": ("user_id", "1"),
    "permission": ("permission_level", "'guest'"),
    "role": ("platform, platform_server_id, role", f"{PLACE}, 'r'"),
    "channel": ("platform, platform_server_id, platform_channel_id", f"{PLACE}, 'c'"),
    "persona": ("persona_id", "1"),
    "server": ("platform, platform_server_id", PLACE),
    "installation": ("period", "'day'"),
}
# Rows like the ones before, of somebody and somewhere else.
OTHERS = """
INSERT INTO public.users (id, permission_level) VALUES (2, 'user');
INSERT INTO public.personas (id, name, system_prompt) VALUES (1, 'Sage', 'Wise.'), (2, 'Fool', 'Foolish.');
INSERT INTO public.member_roles (platform, platform_user_id, server, user_id, roles)
VALUES ('discord', '1', 's', 1, '["r"]');
UPDATE public.turns SET persona_id = 1;
INSERT INTO public.budgets (kind, token_limit, user_id) VALUES ('person', 0, 2);
INSERT INTO public.budgets (kind, token_limit, permission_level) VALUES ('permission', 0, 'user');
INSERT INTO public.budgets (kind, token_limit, persona_id) VALUES ('persona', 0, 2);
INSERT INTO public.budgets (kind, token_limit, platform, platform_server_id) VALUES ('server', 0, 'slack', 's');
INSERT INTO public.budgets (kind, token_limit, platform, platform_server_id, role)
VALUES ('role', 0, 'discord', 's', 'x');
INSERT INTO public.budgets (kind, token_limit, platform, platform_server_id, platform_channel_id)
VALUES ('channel', 0, 'discord', 's', 'd'), ('channel', 0, 'discord', NULL, 'c');
"""


async def add_limit(money: Money, kind: str, limits: str = "token_limit", amount: float = 100) -> int:
    """Add a limit to what Ann spends in the channel; return its id."""
    columns, values = SUBJECTS[kind]
    number: int = await money.connection.fetchval(
        f"INSERT INTO public.budgets (kind, {columns}, {limits}) VALUES ('{kind}', {values}, {amount}) RETURNING id"  # noqa: S608  # no input
    )
    return number


def refusal_of(row: dict[str, Any] | None) -> tuple[str, str, str, str] | None:
    """Return kind, unit, period and cause of the limit that refuses a call."""
    assert row is not None
    assert row["admitted"] is (row["refusal"] is None)
    if row["refusal"] is None:
        return None
    details = json.loads(row["refusal"])
    return details["kind"], details["unit"], details["period"], details["cause"]


async def counters(money: Money, number: int) -> tuple[Any, ...]:
    """Return what a row of budgets has used and reserved, in tokens and in dollars."""
    row = await money.connection.fetchrow(
        "SELECT tokens_used, tokens_reserved, cost_used, cost_reserved FROM public.budgets WHERE id = $1", number
    )
    return (row[0], row[1], float(row[2]), float(row[3]))


@pytest.mark.parametrize("kind", SUBJECTS)
async def test_each_kind_of_limit_refuses_what_it_is_about_and_nothing_else(kind: str, money: Money) -> None:
    await money.limit()
    await money.connection.execute(OTHERS)
    assert refusal_of(await money.reserve(150)) is None, "none of the others applies"
    await money.settle((0, 0))
    number = await add_limit(money, kind)

    assert refusal_of(await money.reserve(150)) is None
    assert await counters(money, number) == (0, 150, 0, 0)
    await money.settle((70, 30))

    assert await counters(money, number) == (100, 0, 0.01, 0)
    period = "day" if kind == "installation" else "month"
    assert refusal_of(await money.reserve(1)) == (kind, "tokens", period, "exhausted")
    assert await money.connection.fetchval("SELECT count(*) FROM public.budget_reservations") == 0
    # The second turn is of the same person, with the same persona, elsewhere.
    elsewhere = refusal_of(await money.reserve(1, turn=2, attempt=1))
    assert (elsewhere is None) is (kind in ("role", "channel", "server"))


async def test_all_limits_must_admit_a_call_and_an_exhausted_one_is_named_before_a_busy_one(money: Money) -> None:
    await money.limit(user=1000)
    busy, spent = await add_limit(money, "channel"), await add_limit(money, "server")
    await money.connection.execute("UPDATE public.budgets SET tokens_reserved = 100 WHERE id = $1", busy)
    assert refusal_of(await money.reserve(1)) == ("channel", "tokens", "month", "busy")

    await money.connection.execute(
        "UPDATE public.budgets SET tokens_used = 100, resets_at = now() + interval '1 day' WHERE id = $1", spent
    )
    assert refusal_of(await money.reserve(1)) == ("server", "tokens", "month", "exhausted")
    await money.limit(user=0)
    assert refusal_of(await money.reserve(1)) == ("person", "tokens", "30 days", "exhausted")
    assert await money.user() == (0, 0)


async def test_a_limit_in_dollars_counts_known_prices_and_refuses_unknown_ones(money: Money) -> None:
    await money.limit()
    number = await add_limit(money, "installation", "cost_limit", 0.02)

    assert refusal_of(await money.reserve(10)) == ("installation", "dollars", "day", "unpriced")
    assert refusal_of(await money.reserve(10, cost=0.015)) is None
    assert await counters(money, number) == (0, 10, 0, 0.015)
    unknown = [CALL | {"input_tokens": 5, "output_tokens": 1, "cost": None}]
    await money.row("SELECT * FROM public.parley_settle(1, 2, $1, 0, NULL, 60)", json.dumps(unknown))
    assert await counters(money, number) == (6, 0, 0, 0), "an unknown price is no price"

    for _ in range(2):
        assert refusal_of(await money.reserve(10, cost=0.015)) is None
        await money.settle((5, 1))
    assert await counters(money, number) == (18, 0, 0.02, 0)
    assert refusal_of(await money.reserve(10, cost=0.001)) == ("installation", "dollars", "day", "exhausted")


async def test_a_day_and_a_month_begin_anew_by_the_calendar(money: Money) -> None:
    day, month = await add_limit(money, "installation"), await add_limit(money, "channel")
    await money.connection.execute(
        "UPDATE public.budgets SET tokens_used = 100, percent_told = 100, resets_at = now() - interval '1 minute'"
    )

    assert refusal_of(await money.reserve(1)) is None
    await money.settle((3, 0))

    rows = await money.connection.fetch(
        "SELECT id, tokens_used, percent_told, (now() AT TIME ZONE 'UTC')::date, (resets_at AT TIME ZONE 'UTC')::date"
        " FROM public.budgets ORDER BY id"
    )
    today: date = rows[0][3]
    next_month = (today.replace(day=1) + timedelta(days=32)).replace(day=1)
    assert [tuple(row) for row in rows] == [
        (day, 3, 0, today, today + timedelta(days=1)),
        (month, 3, 0, today, next_month),
    ]


async def test_a_grant_is_on_top_of_each_kind_of_limit_until_it_ends(money: Money) -> None:
    await money.limit(user=10, server=10)
    number = await add_limit(money, "channel", amount=10)
    await money.settle((10, 0))
    grant = (
        "INSERT INTO public.budget_grants ({}, status, tokens, ends_at)"
        " VALUES ($1, 'granted', 5, now() + interval '1 hour')"
    )

    for column, kind, whose in (
        ("limit_user_id", "person", 1),
        ("limit_server_id", "server", 1),
        ("limit_budget_id", "channel", number),
    ):
        assert (refusal_of(await money.reserve(1)) or ("",))[0] == kind
        await money.connection.execute(grant.format(column), whose)

    assert refusal_of(await money.reserve(1)) is None
    await money.settle((5, 0))
    assert (refusal_of(await money.reserve(1)) or ("",))[0] == "person"
    await money.connection.execute("UPDATE public.budget_grants SET tokens = 50")
    assert refusal_of(await money.reserve(1)) is None
    await money.settle((0, 0))
    await money.connection.execute("UPDATE public.budget_grants SET ends_at = now() WHERE limit_server_id = 1")
    assert (refusal_of(await money.reserve(1)) or ("",))[0] == "server"


async def test_each_threshold_is_noted_once_in_a_period(money: Money) -> None:
    await money.limit(user=100, server=1000)
    number = await add_limit(money, "channel", amount=200)
    notices: list[tuple[Any, ...]] = []
    for _ in range(11):
        await money.settle((10, 0))
        rows = await money.connection.fetch(
            "DELETE FROM public.budget_notices RETURNING limit_user_id, limit_server_id, limit_budget_id, percent"
        )
        notices += [tuple(row) for row in rows]

    person, channel = (1, None, None), (None, None, number)
    assert notices == [(*person, 50), (*person, 80), (*person, 100), (*channel, 50)]


async def test_a_summary_and_an_embedding_reach_thresholds_like_a_turn(money: Money) -> None:
    await money.limit(user=100, server=100)
    await money.connection.execute(
        "UPDATE public.conversations"
        " SET summary_claimed_until = now() + interval '1 minute', is_direct = id = 2, user_id = 1"
    )
    charge = (
        "SELECT charged.* FROM public.conversations AS c CROSS JOIN LATERAL"
        " public.parley_charge_summary(c.id, c.summary_claimed_until, $1, $2) AS charged WHERE c.id = $3"
    )
    call = json.dumps([CALL | {"purpose": "summary", "input_tokens": 60, "output_tokens": 0}])

    assert await money.row(charge, "[]", 70, 1) == {"is_ours": True, "admitted": True}
    assert (await money.user(), await money.server()) == ((0, 0), (0, 70)), "many share this conversation"
    await money.row(charge, call, None, 1)
    await money.row(charge, call, None, 2)
    assert (await money.user(), await money.server()) == ((60, 0), (60, 0))
    await money.connection.execute(
        "SELECT public.parley_charge_embeddings('openai/embed', '{1}', '{1}', '{30}', '{0}')"
    )

    notices = await money.connection.fetch("SELECT limit_user_id, limit_server_id, percent FROM public.budget_notices")
    assert [tuple(row) for row in notices] == [(None, 1, 50), (1, None, 50), (1, None, 80), (None, 1, 80)]
    assert await money.connection.fetch(DIFFERENT) == []


async def test_what_is_held_goes_back_to_the_limits_that_hold_it(money: Money) -> None:
    await money.limit()
    other = await add_limit(money, "channel")
    await money.reserve(40)
    await money.connection.execute("UPDATE public.budgets SET platform_channel_id = 'elsewhere' WHERE id = $1", other)
    new = await add_limit(money, "server")

    await money.settle((25, 5), reserve=50)

    assert await counters(money, other) == (0, 0, 0, 0)
    assert await counters(money, new) == (30, 50, 0.01, 0)
    await money.settle((0, 0))
    assert await counters(money, new) == (30, 0, 0.02, 0)


async def test_a_limit_that_is_used_up_is_named_before_one_that_is_only_busy(money: Money) -> None:
    await money.limit(user=100)
    await money.reserve(100, turn=2, attempt=1)
    assert refusal_of(await money.reserve(1)) == ("person", "tokens", "30 days", "busy")
    spent = await add_limit(money, "installation")
    await money.connection.execute(
        "UPDATE public.budgets SET tokens_used = 100, resets_at = now() + interval '1 hour' WHERE id = $1", spent
    )

    assert refusal_of(await money.reserve(1)) == ("installation", "tokens", "day", "exhausted")


TURNS, PEOPLE, CONNECTIONS, MOST = 200, 20, 16, 60
MANY = """
INSERT INTO public.users (id, permission_level, token_budget_monthly)
SELECT n, CASE WHEN n % 2 = 0 THEN 'user' ELSE 'guest' END, 700 FROM generate_series(2, 20) AS n;
INSERT INTO public.personas (id, name, system_prompt) VALUES (1, 'Sage', 'Wise.'), (2, 'Fool', 'Foolish.');
INSERT INTO public.servers (id, platform, platform_server_id, token_budget_monthly) VALUES (2, 'discord', 't', 2500);
INSERT INTO public.conversations (id, platform, platform_server_id, platform_channel_id, platform_thread_id)
SELECT 100 + n, 'discord', CASE WHEN n % 2 = 0 THEN 's' ELSE 't' END, CASE WHEN n % 4 < 2 THEN 'c' ELSE 'd' END, n
FROM generate_series(0, 199) AS n;
SELECT nextval('public.turns_id_seq') FROM generate_series(1, 299);
INSERT INTO public.turns (id, conversation_id, user_id, persona_id, attempt)
SELECT 100 + n, 100 + n, 1 + n % 20, 1 + n % 2, 1 FROM generate_series(0, 199) AS n;
INSERT INTO public.budgets (kind, token_limit, cost_limit) VALUES ('installation', 4000, 3.5);
INSERT INTO public.budgets (kind, token_limit, permission_level) VALUES ('permission', 2000, 'guest');
INSERT INTO public.budgets (kind, token_limit, persona_id) VALUES ('persona', 2100, 1);
INSERT INTO public.budgets (kind, token_limit, platform, platform_server_id, platform_channel_id)
VALUES ('channel', 1100, 'discord', 't', 'c');
INSERT INTO public.budgets (kind, token_limit, platform, platform_server_id) VALUES ('server', 1900, 'discord', 's');
INSERT INTO public.budgets (kind, cost_limit, user_id, period) VALUES ('person', 0.1, 2, 'day');
"""
EVERY_LIMIT = """
SELECT token_limit, tokens_used, tokens_reserved, cost_limit, cost_used, cost_reserved FROM public.budgets
UNION ALL SELECT token_budget_monthly, tokens_used_this_month, tokens_reserved, NULL, 0, 0 FROM public.users
UNION ALL SELECT token_budget_monthly, tokens_used_this_month, tokens_reserved, NULL, 0, 0 FROM public.servers
"""


class Turns:
    """Turns that spend at once: most calls are paid, some are given up, expire, or go along with an embedding."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._chance = random.Random(13)  # noqa: S311  # no secret
        self.exhausted = self.embedded = 0

    async def run(self, turn: int) -> None:
        user = 1 + (turn - 100) % PEOPLE
        for _ in range(3):
            tokens, way = self._chance.randrange(1, MOST), self._chance.randrange(10)
            reservation_id = await self._reserve(user, turn)
            if reservation_id is None:
                self.exhausted += 1
                return
            if way == 0:
                await self._pool.execute("SELECT parley_release($1)", turn)
            elif way == 1:
                expire = "UPDATE budget_reservations SET expires_at = now() - interval '1 s' WHERE turn_id = $1"
                await self._pool.execute(expire, turn)
                await self._pool.execute("SELECT parley_expire_reservations()")
            else:
                if way == 2:
                    await self._embed([user, 1])
                await self._pay(turn, tokens, reservation_id)

    async def _reserve(self, user: int, turn: int) -> int | None:
        reserve = "SELECT * FROM parley_reserve($1, $2, 1, $3, $4, 60)"
        while True:
            row = await self._pool.fetchrow(reserve, user, turn, MOST, MOST / 1000)
            if row["admitted"]:
                return int(row["reservation_id"])
            if json.loads(row["refusal"])["cause"] == "exhausted":
                return None
            # Others hold the rest, and give some of it back.
            await asyncio.sleep(0.01)

    async def _embed(self, users: list[int]) -> None:
        self.embedded += len(users)
        charge = "SELECT parley_charge_embeddings('openai/embed', $1, $2, $3, $4)"
        await self._pool.execute(charge, users, [101, 100], [1, 1], [0.001, 0.001])

    async def _pay(self, turn: int, tokens: int, reservation_id: int) -> None:
        call = CALL | {
            "input_tokens": tokens,
            "output_tokens": 0,
            "cost": tokens / 1000,
            "reservation_id": reservation_id,
        }
        await self._pool.execute("SELECT parley_settle($1, 1, $2, 0, NULL, 60)", turn, json.dumps([call]))


async def test_two_hundred_turns_at_once_overspend_none_of_their_limits(money: Money, address: Address) -> None:
    await money.limit(user=700, server=2500)
    await money.connection.execute(MANY)
    async with (
        asyncpg.create_pool(**address.asyncpg_arguments(), min_size=CONNECTIONS, max_size=CONNECTIONS) as pool,
        asyncio.timeout(120),
        asyncio.TaskGroup() as group,
    ):
        turns = Turns(pool)
        for number in range(TURNS):
            group.create_task(turns.run(100 + number))

    # One call more than the limit, and embeddings, which are refused by none.
    slack = MOST + turns.embedded
    for row in await money.connection.fetch(EVERY_LIMIT):
        assert (row["tokens_reserved"], row["cost_reserved"]) == (0, 0)
        assert row["token_limit"] is None or row["tokens_used"] < row["token_limit"] + slack
        assert row["cost_limit"] is None or row["cost_used"] * 1000 < row["cost_limit"] * 1000 + slack
    assert turns.exhausted > 50
    assert await money.connection.fetch(DIFFERENT) == [], "the counters are the sum of the ledger"


MONTH = """
INSERT INTO public.budgets (kind, token_limit, cost_limit) VALUES ('installation', 1000000, 100);
INSERT INTO public.budgets (kind, period, token_limit, platform, platform_server_id)
VALUES ('server', 'day', 1000000, 'discord', 's');
UPDATE public.users SET budget_reset_at = now() + interval '1 day';
UPDATE public.servers SET budget_reset_at = now() + interval '2 days';
INSERT INTO public.token_logs (user_id, conversation_id, model, input_tokens, output_tokens, cost_estimate, budget_ids,
                               created_at)
SELECT 1, 1 + n % 2, 'openai/stub', n % 7, n % 5, CASE WHEN n % 3 > 0 THEN n % 11 / 1000.0 END,
       CASE WHEN n % 2 = 0 THEN ARRAY[1, 2] ELSE ARRAY[1] END, now() - (n * 7 + 3) * interval '1 minute'
FROM generate_series(1, 9000) AS n;
"""
DIFFERENT = "SELECT subject, counter, counted::float, ledger::float FROM public.parley_budget_differences()"


async def test_a_replayed_month_of_the_ledger_reconciles_to_the_token(money: Money) -> None:
    await money.limit()
    await money.reserve(70)
    await money.settle((30, 5), reserve=80)
    assert await money.connection.fetch(DIFFERENT) == []
    await money.connection.execute(MONTH)
    sums = await money.connection.fetchrow(
        "SELECT sum(input_tokens + output_tokens) FILTER (WHERE created_at >= now() - interval '29 days') AS person,"
        " sum(input_tokens + output_tokens) FILTER (WHERE created_at >= now() - interval '28 days'"
        "  AND conversation_id = 1) AS server,"
        " sum(input_tokens + output_tokens) FILTER (WHERE budget_ids @> '{1}' AND created_at AT TIME ZONE 'UTC'"
        "  >= date_trunc('month', now() AT TIME ZONE 'UTC')) AS month,"
        " sum(cost_estimate) FILTER (WHERE budget_ids @> '{1}' AND created_at AT TIME ZONE 'UTC'"
        "  >= date_trunc('month', now() AT TIME ZONE 'UTC')) AS dollars FROM public.token_logs"
    )
    await money.connection.execute("UPDATE public.users SET tokens_reserved = 7")

    rows = await money.connection.fetch("SELECT * FROM public.parley_reconcile()")

    assert [(row["subject"], row["counter"]) for row in rows][-2:] == [
        ("users", "tokens_reserved"),
        ("users", "tokens_used_this_month"),
    ]
    assert await money.connection.fetch(DIFFERENT) == []
    assert await money.user() == (sums["person"], 80)
    assert await money.server() == (sums["server"], 80)
    assert (await counters(money, 1))[0::2] == (sums["month"], float(sums["dollars"]))
    assert await money.connection.fetch("SELECT * FROM public.parley_reconcile()") == []
