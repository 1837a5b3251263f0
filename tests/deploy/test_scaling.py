"""Workers come and go by the depth of the queue, as KEDA's scaler for Postgres reads it; processes stand for pods."""

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
import yaml

from adapters.tables import update_tables
from shared.db.database import Address
from shared.db.hosts import URL
from tests.crash.stage import Stage, open_stage
from tests.deploy.test_helm import SCALED, render
from tests.support.connections import connected, run_as_owner
from tests.support.databases import Databases
from tests.support.documents import document
from tests.support.given_database import given_database
from tests.support.source_tree import ROOT

MOST_WORKERS = yaml.safe_load((ROOT / "deploy/helm/parley/values.yaml").read_text("utf-8"))["worker"]["autoscaling"][
    "maxReplicas"
]
# The name belongs to the server, which other tests share.
LOGIN, PASSWORD = "scaler_of_a_test", "of a test"
# What docs/kubernetes.md lets an admin run.
GRANTS = document("docs/kubernetes.md").blocks("sql")[0].text.replace("scaler", LOGIN).replace("…", PASSWORD)
OTHER_TABLES = """
SELECT table_schema || '.' || table_name FROM information_schema.tables
WHERE table_schema IN ('admin', 'public') AND table_name NOT IN ('queue_depth')
"""
CHANGES = (
    "CREATE TABLE public.mine ()",
    "CREATE VIEW admin.mine AS SELECT 1",
    "UPDATE admin.queue_depth SET jobs = 1",
)
# What an idle transaction has locked, a migration would wait for.
LIMITS = ("statement_timeout", "idle_in_transaction_session_timeout")
# A hundred times as many messages as wait are answered.
MANY = """
INSERT INTO inbox
    (adapter, platform, platform_event_id, place_key, platform_channel_id, platform_user_id, content, status)
SELECT 'fake', 'test', number::text, 'place ' || number % 1000, 'here', 'ann', 'hello',
       CASE WHEN number % 100000 < 1000 THEN 'waiting' ELSE 'answered' END
FROM generate_series(0, 199999) AS number
"""
FUNCTIONS = """
SELECT DISTINCT pronamespace::regnamespace || '.' || proname FROM pg_proc
WHERE pronamespace IN ('admin'::regnamespace, 'public'::regnamespace)
    AND prosecdef AND has_function_privilege(oid, 'EXECUTE')
"""


@pytest.fixture
async def stage(stages: Databases, tmp_path: Path) -> AsyncIterator[Stage]:
    async with open_stage(stages, tmp_path) as stage:
        yield stage


@pytest.fixture
async def scaler(stage: Stage) -> AsyncIterator[asyncpg.Connection]:
    """A connection of the login that may read the depth and nothing else."""
    await stage.owner.execute(f"{GRANTS}; GRANT {LOGIN} TO current_user")
    async with connected(Address(stage.url, is_embedded=True)) as scaler:
        await scaler.execute(f"SET ROLE {LOGIN}")
        yield scaler
    await stage.owner.execute(f"DROP OWNED BY {LOGIN}; DROP ROLE {LOGIN}")


async def read_depth(scaler: asyncpg.Connection) -> int:
    """Return what the trigger of the chart asks for."""
    (scaled,) = [document for document in render(SCALED) if document["kind"] == "ScaledObject"]
    return int(await scaler.fetchval(scaled["spec"]["triggers"][0]["metadata"]["query"]))


async def test_workers_go_from_none_to_ten_and_back_and_lose_nothing(stage: Stage, scaler: asyncpg.Connection) -> None:
    count = 3 * MOST_WORKERS
    assert await read_depth(scaler) == 0

    for number in range(count):
        await stage.accepts("hello", user=f"user-{number}")
    assert await read_depth(scaler) == count

    workers = [await stage.worker(f"worker-{number}", ["Hello."]) for number in range(MOST_WORKERS)]
    # Half of them go while the others still work.
    await stage.until_delivered(1)
    for worker in workers[: MOST_WORKERS // 2]:
        await worker.stop()
    await stage.until_delivered(count)
    for worker in workers[MOST_WORKERS // 2 :]:
        await worker.stop()

    assert await read_depth(scaler) == 0
    assert await stage.value("SELECT count(*) FROM stage_posts") == count
    assert await stage.value("SELECT count(DISTINCT platform_user_id) FROM inbox WHERE status = 'answered'") == count


async def test_the_login_of_the_scaler_reads_changes_and_calls_nothing_else(
    stage: Stage, scaler: asyncpg.Connection
) -> None:
    tables = [name for (name,) in await stage.rows(OTHER_TABLES)]
    assert {"public.inbox", "public.messages", "admin.users", "admin.turns"} <= set(tables)
    for table in tables:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await scaler.fetch(f"SELECT FROM {table}")
    # What it may call, it calls with its own rights.
    assert await scaler.fetch(FUNCTIONS) == []
    for statement in CHANGES:
        with pytest.raises((asyncpg.InsufficientPrivilegeError, asyncpg.ObjectNotInPrerequisiteStateError)):
            await scaler.execute(statement)


async def test_the_login_of_the_scaler_is_cut_off_when_it_keeps_the_database_busy(postgres: URL) -> None:
    async with given_database(postgres) as address:
        await update_tables(address)
        await run_as_owner(address, GRANTS)
        login = address.asyncpg_arguments(as_owner=True) | {"user": LOGIN, "password": PASSWORD}
        scaler = await asyncpg.connect(**login)
        depth = await scaler.fetchval("SELECT depth FROM admin.queue_depth")
        limits = [await scaler.fetchval(f"SHOW {name}") for name in LIMITS]
        await scaler.close()
        superuser = Address(postgres.set(database=address.url.database), is_embedded=True)
        await run_as_owner(superuser, f"DROP OWNED BY {LOGIN}", f"DROP ROLE {LOGIN}")

    assert (depth, limits) == (0, ["5s", "5s"])


async def test_a_flood_in_one_conversation_wants_no_more_workers_than_one_message(
    stage: Stage, scaler: asyncpg.Connection
) -> None:
    for number in range(50):
        await stage.accepts(f"message {number}", user="ann")
    await stage.accepts("hello", user="bob")

    assert await read_depth(scaler) == 2
    assert await scaler.fetchval("SELECT messages FROM admin.queue_depth") == 51


async def test_what_is_set_aside_answered_or_cancelled_wants_no_worker(
    stage: Stage, scaler: asyncpg.Connection
) -> None:
    for status in ("waiting", "claimed", "answered", "failed", "cancelled"):
        await stage.accepts("hello", user=status)
        await stage.owner.execute("UPDATE inbox SET status = $1 WHERE platform_user_id = $1", status)

    assert await read_depth(scaler) == 2


async def test_the_depth_is_read_from_an_index_however_many_messages_are_answered(
    stage: Stage, scaler: asyncpg.Connection
) -> None:
    await stage.owner.execute(MANY)
    await stage.owner.execute("VACUUM ANALYZE inbox")

    plan = "\n".join(line for (line,) in await scaler.fetch("EXPLAIN SELECT depth FROM admin.queue_depth"))
    assert "Seq Scan on inbox" not in plan
    assert "ix_inbox_open" in plan
    assert await read_depth(scaler) == 1000


async def test_due_jobs_and_replies_on_their_way_want_a_worker(stage: Stage, scaler: asyncpg.Connection) -> None:
    await stage.owner.execute(
        "INSERT INTO users (permission_level) VALUES ('user');"
        "INSERT INTO conversations (platform, platform_channel_id) VALUES ('test', 'here');"
        "INSERT INTO scheduled_jobs (user_id, conversation_id, adapter, platform_user_id, action, content, kind,"
        " starts_at, next_due_at)"
        " SELECT users.id, conversations.id, 'fake', 'ann', 'notify', 'Tea.', 'once', now(), now()"
        " FROM users, conversations"
    )
    assert await read_depth(scaler) == 1

    await stage.owner.execute(
        "INSERT INTO outbox (adapter, platform, platform_channel_id, content)"
        " SELECT 'fake', 'test', 'here', 'Hello.' FROM generate_series(1, 50)"
    )
    # Many replies wait while a platform is away: more workers would not help it.
    assert await read_depth(scaler) == 2
