"""The rules of money, called as an admin calls them in psql: what is admitted, paid and given back."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from agent.people.billing.budget import find_server_budget_status, get_budget_status
from shared.db.database import Database
from shared.messages import Place
from tests.support.money import Money
from tests.support.source_tree import ROOT


def verdict(row: dict[str, Any] | None) -> tuple[bool, str | None]:
    """Return whether the call is admitted, and what the limit is of that refuses it."""
    assert row is not None
    return row["admitted"], refusal(row)["kind"] if row["refusal"] else None


def refusal(row: dict[str, Any] | None) -> dict[str, Any]:
    """Return the limit that refuses a call."""
    assert row is not None
    details: dict[str, Any] = json.loads(row["refusal"])
    return details


async def test_a_call_is_admitted_while_used_and_reserved_are_less_than_the_limit(money: Money) -> None:
    await money.limit(user=100)

    assert verdict(await money.reserve(99, turn=2, attempt=1)) == (True, None)
    assert verdict(await money.reserve(500)) == (True, None)
    assert await money.user() == (0, 599)
    assert await money.server() == (0, 500)


async def test_a_call_is_refused_by_the_persons_budget_and_nothing_is_held(money: Money) -> None:
    await money.limit(user=100)
    await money.connection.execute("UPDATE public.users SET tokens_used_this_month = 40")
    await money.reserve(60, turn=2, attempt=1)

    row = await money.reserve(1)

    assert verdict(row) == (False, "person")
    assert (refusal(row)["used"], refusal(row)["limit"], refusal(row)["cause"]) == (40, 100, "busy")
    assert await money.user() == (40, 60)
    assert await money.server() == (0, 0)


async def test_a_call_is_refused_by_the_servers_budget_and_the_servers_numbers_are_shown(money: Money) -> None:
    await money.limit(user=100, server=10)
    await money.connection.execute("UPDATE public.servers SET tokens_used_this_month = 10")

    row = await money.reserve(1)

    assert verdict(row) == (False, "server")
    assert (refusal(row)["used"], refusal(row)["limit"], refusal(row)["cause"]) == (10, 10, "exhausted")
    assert await money.user() == (0, 0)
    assert verdict(await money.reserve(1, turn=2, attempt=1)) == (True, None), "it binds nobody elsewhere"


async def test_without_limits_everything_is_admitted(money: Money) -> None:
    await money.limit()

    assert verdict(await money.reserve(10**12)) == (True, None)


@pytest.mark.parametrize(("own", "from_roles", "limit"), [(5, 9, 9), (9, 5, 9), (5, None, 5), (None, 9, None)])
async def test_what_roles_give_counts_when_it_is_more(
    own: int | None, from_roles: int | None, limit: int | None, money: Money
) -> None:
    row = await money.row("SELECT * FROM public.parley_budget($1, $2, 3, 4, now())", own, from_roles)

    assert row is not None
    assert row["budget"] == limit


@pytest.mark.parametrize(("days_ago", "days_left"), [(-3, 3), (0, 30), (1, 29), (30, 30), (95, 25)])
async def test_a_period_that_is_over_starts_anew_and_its_end_moves_by_whole_periods(
    days_ago: int, days_left: int, money: Money
) -> None:
    row = await money.row(
        "SELECT used, reserved, resets_at - now() AS left"
        " FROM public.parley_budget(100, NULL, 50, 7, now() - $1 * interval '1 day')",
        days_ago,
    )

    assert row == {"used": 50 if days_ago < 0 else 0, "reserved": 7, "left": timedelta(days=days_left)}


async def test_the_next_call_writes_the_new_period_down(money: Money) -> None:
    await money.limit(user=100, server=100)
    past = datetime.now(UTC) - timedelta(days=31)
    for table in ("users", "servers"):
        await money.connection.execute(
            f"UPDATE public.{table} SET tokens_used_this_month = 100, budget_reset_at = $1",  # noqa: S608  # no input
            past,
        )

    assert verdict(await money.reserve(10)) == (True, None)

    assert await money.user() == await money.server() == (0, 10)
    ends = await money.connection.fetch(
        "SELECT budget_reset_at FROM public.users UNION ALL SELECT budget_reset_at FROM public.servers"
    )
    assert [row[0] for row in ends] == [past + timedelta(days=60)] * 2


async def test_the_program_reads_budgets_by_the_same_rule(money: Money, database: Database) -> None:
    await money.limit(user=100, server=10)
    await money.connection.execute(
        "UPDATE public.users SET tokens_used_this_month = 50, budget_reset_at = now() - interval '1 day'"
    )
    await money.reserve(30)

    async with database.statement() as session:
        own = await get_budget_status(session, 1)
        servers = await find_server_budget_status(session, Place("discord", "s", "c", None))
        elsewhere = await find_server_budget_status(session, Place("web", None, "c", None))

    assert (own.limit, own.used, own.reserved) == (100, 0, 30)
    assert servers is not None
    assert (servers.limit, servers.used, servers.reserved) == (10, 0, 30)
    assert elsewhere is None


async def test_settling_pays_what_was_really_used_and_gives_the_reservation_back(money: Money) -> None:
    await money.limit(user=1000, server=1000)
    await money.reserve(500)

    settled = await money.settle((100, 20), (10, 2))

    assert verdict(settled) == (False, None), "no further call was asked for"
    assert await money.user() == await money.server() == (132, 0)
    ledger = await money.connection.fetch(
        "SELECT user_id, conversation_id, turn_id, input_tokens, output_tokens FROM public.token_logs ORDER BY id"
    )
    assert [tuple(row) for row in ledger] == [(1, 1, 1, 100, 20), (1, 1, 1, 10, 2)]
    assert await money.connection.fetchval("SELECT count(*) FROM public.budget_reservations") == 0
    assert await money.connection.fetchval("SELECT model FROM public.turns WHERE id = 1") == "openai/stub"


async def test_settling_holds_the_next_call_when_what_was_spent_leaves_room(money: Money) -> None:
    await money.limit(user=1000)
    await money.reserve(900)

    assert verdict(await money.settle((500, 0), reserve=700)) == (True, None)
    assert await money.user() == (500, 700)
    assert verdict(await money.settle((500, 0), reserve=1)) == (False, "person")
    assert await money.user() == (1000, 0)


async def test_no_call_gives_tokens_back_and_nothing_reserved_falls_below_zero(money: Money) -> None:
    await money.limit(user=1000)
    await money.reserve(100)
    await money.connection.execute("UPDATE public.users SET tokens_reserved = 10")
    await money.connection.execute("UPDATE public.servers SET tokens_reserved = 10")

    await money.settle((-50, 20))

    assert await money.user() == await money.server() == (20, 0)
    assert await money.connection.fetchval("SELECT input_tokens + output_tokens FROM public.token_logs") == 20


async def test_releasing_gives_back_what_a_turn_holds_once(money: Money) -> None:
    await money.limit(user=1000)
    await money.reserve(100)
    await money.reserve(30, turn=2, attempt=1)

    assert await money.connection.fetchval("SELECT public.parley_release(1)") == 100
    assert await money.connection.fetchval("SELECT public.parley_release(1)") == 0
    assert (await money.user(), await money.server()) == ((0, 30), (0, 0))


async def test_only_reservations_that_have_expired_are_given_back(money: Money) -> None:
    await money.limit(user=1000)
    await money.reserve(100)
    await money.reserve(30, turn=2, attempt=1)
    await money.connection.execute(
        "UPDATE public.budget_reservations SET expires_at = now() - interval '1 second' WHERE turn_id = 1"
    )

    assert await money.connection.fetchval("SELECT public.parley_expire_reservations()") == 1
    assert await money.connection.fetchval("SELECT public.parley_expire_reservations()") == 0
    assert (await money.user(), await money.server()) == ((0, 30), (0, 0))


async def test_an_attempt_that_has_lost_its_turn_changes_nothing(money: Money) -> None:
    await money.limit(user=1000)
    await money.reserve(100)

    assert await money.reserve(7, attempt=1) is None
    assert await money.settle((5, 5), attempt=1, reserve=7) is None
    assert await money.row("SELECT * FROM public.parley_record(1, 1, '[]', '[]')") is None
    close = "SELECT * FROM public.parley_close_turn(1, 1, 'answered', true, 0, NULL, NULL, '[]', '[]', '[]', NULL)"
    assert await money.row(close) is None

    assert await money.user() == (0, 100)
    assert await money.connection.fetchval("SELECT count(*) FROM public.token_logs") == 0
    assert await money.connection.fetchval("SELECT status FROM public.turns WHERE id = 1") == "running"


async def test_a_turn_whose_user_was_deleted_is_still_paid_for(money: Money) -> None:
    await money.connection.execute("DELETE FROM public.users USING set_config('parley.delete_history', 'yes', false)")

    assert verdict(await money.settle((5, 5), reserve=7)) == (True, None)
    assert await money.reserve(7) is None
    assert await money.connection.fetchval("SELECT user_id IS NULL FROM public.token_logs")
    assert await money.server() == (10, 0)


async def test_nobody_but_the_program_may_call_them(owner: asyncpg.Connection) -> None:
    rows = await owner.fetch(
        "SELECT proname, has_function_privilege('parley_app', oid, 'EXECUTE') AS ours, prosecdef, proconfig,"
        " (aclexplode(proacl)).grantee FROM pg_proc WHERE proname LIKE 'parley\\_%'"
    )

    assert len({row["proname"] for row in rows}) >= 10
    # Triggers, what a migration runs, what moves a server between cells, and what admins and other functions call, run
    # with the rights of their owner.
    functions = ROOT / "migrations/schema/functions"
    triggers = {path.stem for path in (functions / "triggers").glob("*.sql")}
    of_moves = "begin_departure end_departure settle_server begin_arrival end_arrival remove_server count_server"
    of_rows = "give_people give_rows take_people take_rows server_tables number_cell last_ids pass_ids"
    others = "bind_owner drop_vectors erase_in_discord erase_in_slack memories_by_user write_audit"
    assert {row["proname"] for row in rows if not row["ours"]} == triggers | {
        f"parley_{name}" for name in f"{of_moves} {of_rows} {others}".split()
    }
    definers = [row for row in rows if row["prosecdef"]]
    assert all(any(re.match("search_path=.*pg_temp$", option) for option in row["proconfig"]) for row in definers)
    names = {row["proname"] for row in definers}
    assert not any(
        word in name for name in names for word in ("charge", "reserve", "settle", "open_turn", "close_turn", "record")
    )
    assert {row["proname"] for row in rows if row["grantee"] == 0} == set(), "0 stands for everybody"
