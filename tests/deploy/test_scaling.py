"""Workers come and go by the depth of the queue, as KEDA's scaler for Postgres reads it; processes stand for pods."""

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
import yaml
from sqlalchemy import URL

from shared.db.database import Address
from tests.crash.stage import Stage, open_stage
from tests.deploy.test_helm import SCALED, render
from tests.support.connections import connected
from tests.support.source_tree import ROOT

MOST_WORKERS = yaml.safe_load((ROOT / "deploy/helm/parley/values.yaml").read_text("utf-8"))["worker"]["autoscaling"][
    "maxReplicas"
]
# What docs/kubernetes.md lets an admin run; the name belongs to the server, which other tests share.
LOGIN = "scaler_of_a_test"
GRANTS = f"""
CREATE ROLE {LOGIN} LOGIN; GRANT USAGE ON SCHEMA admin TO {LOGIN}; GRANT SELECT ON admin.queue_depth TO {LOGIN};
GRANT {LOGIN} TO current_user
"""


@pytest.fixture
async def stage(postgres: URL, tmp_path: Path) -> AsyncIterator[Stage]:
    async with open_stage(postgres, tmp_path) as stage:
        yield stage


@pytest.fixture
async def scaler(stage: Stage) -> AsyncIterator[asyncpg.Connection]:
    """A connection of the login that may read the depth and nothing else."""
    await stage.owner.execute(GRANTS)
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


async def test_the_login_of_the_scaler_reads_nothing_else(stage: Stage, scaler: asyncpg.Connection) -> None:
    for table in ("public.inbox", "public.messages", "admin.users", "admin.turns"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await scaler.fetch(f"SELECT * FROM {table}")  # noqa: S608


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
