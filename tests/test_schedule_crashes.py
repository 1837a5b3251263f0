"""Workers are killed while they send a scheduled job."""

from pathlib import Path

import pytest

from tests.crash.stage import open_stage
from tests.support.databases import Databases

DUE_JOB = """
WITH person AS (
    INSERT INTO users DEFAULT VALUES RETURNING id
), account AS (
    INSERT INTO user_platform_links (user_id, platform, platform_user_id) SELECT id, 'test', 'ann' FROM person
), place AS (
    INSERT INTO conversations (platform, platform_channel_id, is_direct) VALUES ('test', 'dm-ann', true) RETURNING id
)
INSERT INTO scheduled_jobs (user_id, conversation_id, adapter, platform_user_id, content, requires, starts_at,
                            next_due_at)
SELECT person.id, place.id, 'fake', 'ann', 'Feed the bikes.', 'guest', now(), now() FROM person, place
"""
JOBS = "SELECT status, runs FROM scheduled_jobs"

pytestmark = [pytest.mark.xdist_group("processes"), pytest.mark.timeout(300)]


async def test_a_due_job_is_said_once_although_a_worker_dies_before_it_is_sent_and_one_after(
    stages: Databases, tmp_path: Path
) -> None:
    async with open_stage(stages, tmp_path) as stage:
        await stage.owner.execute(DUE_JOB)

        for point, expectation in (("fire before 1", ("active", 0)), ("fire after 1", ("finished", 1))):
            worker = await stage.worker(point, at=point, action="kill")
            await worker.until_gone()
            await stage.age_the_dead()
            assert await stage.rows(JOBS) == [expectation]
        last = await stage.worker("last")
        await stage.until_delivered(1)
        # Further rounds of the schedule find nothing that is due.
        assert await stage.rows(JOBS) == [("finished", 1)]
        await last.stop()

        assert await stage.rows("SELECT content FROM stage_posts") == [("Reminder: Feed the bikes.",)]
        assert await stage.value("SELECT count(*) FROM inbox") == 1
        assert await stage.value("SELECT count(*) FROM turns") == 1
