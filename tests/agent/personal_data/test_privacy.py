"""Export and erasure of a person, with a receipt; an erasure that was interrupted is continued."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from agent.personal_data.erasure import erase, finish_erasures, request_erasure
from agent.personal_data.export import LISTS, export_person, statements
from shared.db.single import LongWork, SmallDatabase
from shared.errors import NotFound, Refusal, Unavailable
from shared.memory.memories import Memories
from shared.memory.storage import NewMemory, Origin
from shared.messages import Place, PlatformContext, QuotedMessage
from shared.receipts import verify_receipt
from shared.settings import Secrets
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.eventually import PATIENCE
from tests.support.parley import Parley
from tests.support.summaries import remembered

SECRETS = Secrets("token", ("key-1", "key-0"))
HOME = Place("discord", None, "dm-1", is_direct=True)
SAID = datetime(2026, 5, 4, tzinfo=UTC)
# Tables whose rows name a person; the ledger and the erasure itself keep numbers alone.
LEFT = """
SELECT (SELECT count(*) FROM users WHERE id = $1) + (SELECT count(*) FROM user_platform_links WHERE user_id = $1)
     + (SELECT count(*) FROM memories WHERE user_id = $1) + (SELECT count(*) FROM memory_vectors WHERE user_id = $1)
     + (SELECT count(*) FROM memory_scopes WHERE user_id = $1) + (SELECT count(*) FROM file_records WHERE user_id = $1)
     + (SELECT count(*) FROM turns WHERE user_id = $1) + (SELECT count(*) FROM messages WHERE user_id = $1)
     + (SELECT count(*) FROM token_logs WHERE user_id = $1)
     + (SELECT count(*) FROM memory_words WHERE term = 'walrus')
     + (SELECT count(*) FROM messages WHERE content LIKE '%walrus%')
     + (SELECT count(*) FROM turn_events WHERE payload::text LIKE '%walrus%')
     + (SELECT count(*) FROM inbox WHERE content LIKE '%walrus%' OR platform_user_id = $2)
     + (SELECT count(*) FROM outbox WHERE content LIKE '%walrus%')
     + (SELECT count(*) FROM conversations WHERE summary LIKE '%walrus%')
     + (SELECT count(*) FROM scheduled_jobs)
"""


JOB = """
INSERT INTO scheduled_jobs (user_id, conversation_id, adapter, platform_user_id, content, starts_at, next_due_at)
SELECT user_id, id, 'http', 'ann', 'Feed the walrus.', 'infinity', 'infinity' FROM conversations
"""


class UnreachableStorage:
    """A storage that can't delete."""

    async def delete(self, key: str) -> None:
        raise Unavailable


@pytest.fixture
async def ann(parley: Parley) -> int:
    """A person who has written, has memories, and has a file."""
    await parley.ask("my walrus is called Rex")
    user_id = int(await parley.value("SELECT max(id) FROM users"))
    memory = parley.app.memory.of_user(user_id, HOME, None)
    await memory.remember("the walrus is grey")
    files = parley.app.files.storage.of_user(parley.app.database, user_id, None)
    await files.create("walrus.txt", b"a walrus")
    await parley.sql(JOB)
    return user_id


@pytest.fixture(params=["a pool", "one connection"])
async def database(parley: Parley, request: pytest.FixtureRequest) -> AsyncIterator[LongWork]:
    """The database as workers have it, and as commands of the terminal do."""
    small = SmallDatabase(parley.app.database.address)
    yield small if request.param == "one connection" else parley.app.database
    await small.close()


async def erasure_of(parley: Parley, user_id: int) -> int:
    async with parley.app.database.transaction() as session:
        erasure_id = await request_erasure(session, user_id)
    assert erasure_id is not None
    return erasure_id


async def account_of(parley: Parley) -> str:
    return str(await parley.value("SELECT platform_user_id FROM user_platform_links"))


async def test_an_export_holds_everything_and_is_json(parley: Parley, ann: int, database: LongWork) -> None:
    async with database.transaction() as session:
        export = await export_person(session, parley.app.files.storage, ann)
        assert await export_person(session, parley.app.files.storage, ann + 1) is None

    assert export is not None
    archive = json.loads(json.dumps(export, default=str))
    assert archive["profile"]["id"] == ann
    assert len(archive["accounts"]) == 1
    assert [memory["content"] for memory in archive["memories"] if memory["source"] == "remembered"] == [
        "the walrus is grey"
    ]
    assert "my walrus is called Rex" in archive["messages"][0]["content"]
    assert [file["filename"] for file in archive["files"]] == ["walrus.txt"]
    assert "sig" in archive["files"][0]["url"] or "?" in archive["files"][0]["url"]
    assert archive["usage"]


async def test_after_an_erasure_nothing_is_left_but_a_receipt(
    parley: Parley, ann: int, owner: asyncpg.Connection, database: LongWork
) -> None:
    account, key = await account_of(parley), await parley.value("SELECT minio_key FROM file_records")

    erased = await erase(database, parley.app.files.storage, await erasure_of(parley, ann))

    assert await owner.fetchval(LEFT, ann, account) == 0
    with pytest.raises(NotFound):
        await parley.app.files.storage.size(key)
    receipt = verify_receipt(SECRETS, erased.to_receipt(SECRETS))
    assert receipt["user"] == ann
    assert receipt["erased"]["files"] == receipt["erased"]["accounts"] == 1
    assert receipt["erased"]["memories"] >= 1
    assert account not in json.dumps(receipt)
    assert (await parley.ask("hello again")).error is None


# Tables that name people, of which an export has no rows of their own, and why.
NOT_EXPORTED = {
    "budget_notices": "a mark that a limit's threshold was told",
    "budget_reservations": "numbers of calls that run just now",
    "erasures": "numbers, after the person is gone",
    "memory_scopes": "says who sees the memories, which name it",
    "memory_vectors": "made of memories",
    "turns": "joined with their messages",
    "users": "the profile",
    "user_platform_links": "the accounts",
}


async def test_an_export_has_every_table_that_names_its_person(owner: asyncpg.Connection) -> None:
    rows = await owner.fetch(
        "SELECT DISTINCT conrelid::regclass::text AS name FROM pg_constraint"
        " WHERE confrelid = 'users'::regclass AND contype = 'f'"
    )
    of_modules = await owner.fetch("SELECT prosrc FROM pg_proc WHERE proname LIKE 'parley\\_export\\_in\\_%'")
    texts = [*map(str, LISTS.values()), str(statements.export_files), *(row["prosrc"] for row in of_modules)]
    exported = set(re.findall(r"(?:FROM|JOIN) (?:public\.)?(\w+)", " ".join(texts)))

    assert {row["name"] for row in rows} - exported - NOT_EXPORTED.keys() == set()


# Text and ids of a person in everything that is stored; jobs that are done are removed by the next tick.
TEXTS = """
SELECT table_name FROM information_schema.tables
WHERE table_schema = 'public' AND table_type = 'BASE TABLE'
"""
PARKED = """
WITH parked AS (
    INSERT INTO inbox (adapter, platform, platform_event_id, place_key, platform_channel_id, platform_user_id, content,
                       status)
    SELECT 'http', 'slack', 'C1:m9', 'k', 'C1', 'guild:u-7731', 'my walrus', 'failed' RETURNING platform_event_id
)
INSERT INTO outbox (adapter, platform, platform_channel_id, reply_to, content, status)
SELECT 'http', 'slack', 'C1', platform_event_id, 'Ann-Kathrin, it failed.', 'delivered' FROM parked
"""
MOVED = """
UPDATE inbox SET platform_user_id = 'u-7732'
WHERE turn_id = (SELECT max(id) FROM turns WHERE user_id = $1)
"""


async def test_after_an_erasure_no_table_has_a_word_or_an_account_of_the_person(
    parley: Parley, model: OpenAIStub, owner: asyncpg.Connection, database: LongWork
) -> None:
    store = Answer(tool_calls=[("knowledge__remember", {"content": "Ann-Kathrin's walrus is grey."})])
    model.play(lambda body, number: store if number == 1 else Answer("A walrus!"))
    ann: dict[str, Any] = {"user": "guild:u-7731", "username": "Ann-Kathrin", "platform": "slack"}
    await parley.ask("remember the walrus", event_id="C1:m1", server="guild", **ann)
    await parley.ask("my walrus is called Rex", event_id="D1:m2", **ann)
    earlier = (
        QuotedMessage("Ann-Kathrin", "remember the walrus", "C1:m1", author_id="guild:u-7731"),
        QuotedMessage("Ann-Kathrin", "the walrus sleeps", "C1:m3", author_id="guild:u-7731"),
        QuotedMessage("Eve", "the sea is cold", "C1:m4", author_id="u-2"),
    )
    context = PlatformContext(earlier=earlier)
    bob = {"user": "u-1", "username": "Bob", "platform": "slack"}
    model.play(["It is cold."])
    await parley.ask("how is the sea?", server="guild", platform_context=context, **bob)
    user_id = int(await parley.value("SELECT user_id FROM user_platform_links WHERE platform_user_id = 'guild:u-7731'"))
    # A message that no turn has taken, with the sentence that answered it, and one of an account that has moved on.
    await parley.sql(PARKED)
    await owner.execute(MOVED, user_id)
    await owner.execute("INSERT INTO slack_group_lists (team_id) VALUES ('guild')")
    await owner.execute(
        "INSERT INTO slack_group_members (list_id, platform_user_id, group_id, group_name)"
        " SELECT id, 'u-7731', 'g', 'Cooks' FROM slack_group_lists"
    )
    await remembered(parley)

    await erase(database, parley.app.files.storage, await erasure_of(parley, user_id))

    tables = [row["table_name"] for row in await owner.fetch(TEXTS)]
    leaks = {
        (name, row["found"])
        for name in tables
        for row in await owner.fetch(
            f"SELECT found FROM (SELECT CAST(t AS text) AS found FROM {name} AS t) AS each"  # noqa: S608  # our own tables
            " WHERE found ~* 'walrus|kathrin|u-7731|u-7732'"
        )
    }
    assert leaks == set()
    assert "the sea is cold" in await parley.value("SELECT content FROM messages WHERE role = 'user'")


async def test_an_erasure_that_was_interrupted_is_continued(
    parley: Parley, ann: int, owner: asyncpg.Connection
) -> None:
    account, erasure_id = await account_of(parley), await erasure_of(parley, ann)
    with pytest.raises(Unavailable):
        await erase(parley.app.database, UnreachableStorage(), erasure_id)
    assert await parley.value("SELECT count(*) FROM file_records") == 1
    assert await erasure_of(parley, ann) == erasure_id

    assert await finish_erasures(parley.app.database, parley.app.files.storage) == 1
    assert await finish_erasures(parley.app.database, parley.app.files.storage) == 0
    assert await owner.fetchval(LEFT, ann, account) == 0
    again = await erase(parley.app.database, parley.app.files.storage, erasure_id)
    assert again.counts["files"] == 1


BLOCKED = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid)))"


@pytest.mark.parametrize(
    "lock",
    [
        "SELECT FROM inbox FOR UPDATE",
        "SELECT FROM turns FOR NO KEY UPDATE",
        "SELECT FROM conversations FOR NO KEY UPDATE",
        "SELECT FROM memory_scopes FOR UPDATE",
        "SELECT FROM memories FOR NO KEY UPDATE",
    ],
)
async def test_whoever_works_for_a_person_and_their_erasure_wait_for_each_other_in_no_circle(
    parley: Parley, ann: int, owner: asyncpg.Connection, lock: str
) -> None:
    account, erasure_id = await account_of(parley), await erasure_of(parley, ann)
    storage = parley.app.files.storage
    while files := await parley.sql("SELECT id, minio_key FROM file_records"):
        for file in files:
            await storage.delete(file.minio_key)
            await parley.sql("DELETE FROM file_records WHERE id = :id", id=file.id)

    async with owner.transaction():
        await owner.execute(lock)
        erasing = asyncio.create_task(erase(parley.app.database, storage, erasure_id))
        while not await owner.fetchval(BLOCKED):
            assert not erasing.done(), erasing
        # What every new row does that names the person.
        await owner.execute("SELECT FROM users WHERE id = $1 FOR KEY SHARE", ann)
    await erasing

    assert await owner.fetchval(LEFT, ann, account) == 0


async def test_a_receipt_that_was_changed_is_refused(parley: Parley, ann: int) -> None:
    erased = await erase(parley.app.database, parley.app.files.storage, await erasure_of(parley, ann))
    signed = erased.to_receipt(SECRETS)

    assert verify_receipt(Secrets("token", ("newer", "key-1")), signed)["user"] == ann
    for forged in (signed.replace('"files": 1', '"files": 0').replace('"files":1', '"files":0'), "", "{}.x"):
        with pytest.raises(Refusal):
            verify_receipt(SECRETS, forged)
    with pytest.raises(Refusal):
        verify_receipt(Secrets("token", ("other",)), signed)


@pytest.mark.parametrize(
    "pause", ["UPDATE users SET is_memory_paused = true", "UPDATE conversations SET is_memory_paused = true"]
)
async def test_during_a_pause_only_what_is_asked_for_is_remembered(
    parley: Parley, owner: asyncpg.Connection, pause: str
) -> None:
    await parley.ask("hello")
    user_id = int(await parley.value("SELECT max(id) FROM users"))
    conversation_id = int(await parley.value("SELECT max(id) FROM conversations"))
    await owner.execute(pause)
    before = await owner.fetchval("SELECT count(*) FROM memories")

    memories: Memories = parley.app.memory
    origin = Origin(HOME, conversation_id)
    await memories.add([NewMemory(user_id, origin, "a message", SAID), NewMemory(user_id, origin, "more", SAID)])
    assert await owner.fetchval("SELECT count(*) FROM memories") == before
    await memories.of_user(user_id, HOME, conversation_id).remember("the walrus is grey")
    assert [memory.content for memory in await memories.of_user(user_id, HOME, None).recall("walrus")] == [
        "the walrus is grey"
    ]


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_whoever_waits_for_an_answer_of_somebody_who_is_erased_meanwhile_is_told_at_once(
    parley: Parley, is_streamed: bool
) -> None:
    event = asyncio.Event()

    async def answer(_body: Any, _number: int) -> Answer:
        event.set()
        await asyncio.sleep(3600)
        return Answer("too late")

    parley.model.play(answer)
    accepted = await parley.accept("tell me about walruses", wants_stream=is_streamed)
    task = asyncio.create_task(parley.app.events.response(accepted.inbox_id))
    follower = asyncio.create_task(_last_event(parley, accepted.inbox_id))
    async with asyncio.timeout(PATIENCE):
        await event.wait()

    user_id = await parley.value("SELECT max(id) FROM users")
    async with parley.app.database.transaction() as session:
        erasure_id = await request_erasure(session, user_id)
    assert erasure_id is not None
    await erase(parley.app.database, parley.app.files.storage, erasure_id)

    async with asyncio.timeout(PATIENCE):
        response, last = await asyncio.gather(task, follower)
    assert (response.error, response.finished) == ("erased", False)
    assert "erased while I worked on this" in response.content
    assert last["error"] == "erased"
    assert await parley.value("SELECT count(*) FROM users WHERE id = :id", id=user_id) == 0


async def test_whoever_waits_for_a_turn_that_has_not_begun_is_told_of_the_erasure_without_looking_again(
    parley: Parley,
) -> None:
    parley.app.events.read_again_seconds = 3600.0
    event = asyncio.Event()

    async def answer(_body: Any, _number: int) -> Answer:
        event.set()
        await asyncio.sleep(3600)
        return Answer("too late")

    parley.model.play(answer)
    await parley.accept("tell me about walruses")
    async with asyncio.timeout(PATIENCE):
        await event.wait()
    waiting = await parley.accept("and about seals")
    task = asyncio.create_task(parley.app.events.response(waiting.inbox_id))
    async with parley.app.database.transaction() as session:
        erasure_id = await request_erasure(session, await parley.value("SELECT max(id) FROM users"))
    assert erasure_id is not None
    await erase(parley.app.database, parley.app.files.storage, erasure_id)

    async with asyncio.timeout(PATIENCE):
        assert (await task).error == "erased"


async def _last_event(parley: Parley, inbox_id: int) -> dict[str, Any]:
    events = [event async for event in parley.app.events.follow(inbox_id)]
    return dict(events[-1].payload)
