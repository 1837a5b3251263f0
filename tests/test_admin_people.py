"""What admins do with people and servers in SQL: pauses, permissions with an end, names, erasing, merging."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from adapters.cli.worker import statements
from agent.personal_data.erasure import finish_erasures
from agent.queue.maintenance.steps import Steps
from shared.db.database import Address
from shared.db.roles import ADMIN_ROLE
from shared.errors import NotFound
from shared.messages import AgentResponse, Permission
from shared.tools import Tool, ToolContext
from tests.standins.openai_api import Answer
from tests.support.parley import Parley
from tests.support.psql import Psql, psql_session


@pytest.fixture
async def psql(address: Address) -> AsyncIterator[Psql]:
    async with psql_session(address, role=ADMIN_ROLE) as psql:
        yield psql


async def ann(parley: Parley, content: str = "hello", server: str | None = "42") -> AgentResponse:
    return await parley.ask(content, platform="discord", user="222", server=server, username="Ann")


@pytest.mark.parametrize(
    ("what", "sentence"), [("user('discord', 'Ann')", "for you"), ("server('discord', '42')", "on this server")]
)
async def test_who_is_paused_gets_a_sentence_and_no_model_is_asked(
    parley: Parley, psql: Psql, what: str, sentence: str
) -> None:
    await ann(parley)
    await psql.run(f"SELECT admin.pause_{what}")

    reply = await ann(parley)

    assert reply.error == "paused"
    assert f"An admin has paused me {sentence}." in reply.content
    assert parley.model.count == 1
    assert await parley.value("SELECT sum(tokens_reserved) FROM users") == 0
    assert (await parley.ask("hello", platform="discord", user="333", server="43")).error is None
    with pytest.raises(asyncpg.RaiseError, match="is paused already"):
        await psql.run(f"SELECT admin.pause_{what}")
    # A pause is a change like others.
    await psql.run(f"SELECT admin.undo({await psql.last()})")
    assert (await ann(parley)).error is None
    await psql.run(f"SELECT admin.pause_{what}")
    await psql.run(f"SELECT admin.resume_{what}")
    assert (await ann(parley)).error is None
    with pytest.raises(asyncpg.RaiseError, match="is not paused"):
        await psql.run(f"SELECT admin.resume_{what}")


async def test_a_pause_ends_the_turn_that_runs(parley: Parley, psql: Psql) -> None:
    async def pauses(_body: object, _number: int) -> Answer:
        await psql.run("SELECT admin.pause_user('discord', '222')")
        return Answer("", tool_calls=[("knowledge__list_memories", {})])

    parley.model.play(pauses)

    assert "stopped" in (await ann(parley)).content.lower()
    assert parley.model.count == 1


async def test_a_permission_that_has_ended_is_obeyed_no_more(parley: Parley, psql: Psql) -> None:
    posts: list[str] = []

    async def post(_context: ToolContext, text: str) -> str:
        """Post a text."""
        posts.append(text)
        return "posted"

    parley.app.tools.mcp.offer([Tool(post, Permission.ADMIN, module="wall")])
    call = Answer("", tool_calls=[("wall__post", {"text": "hello"})])
    await ann(parley)
    await psql.run("SELECT admin.set_budget('discord', 'Ann', 70000)")
    statement = "SELECT admin.grant_permission('discord', 'Ann', 'admin', now() + interval '1 day')"
    assert "Ann is admin until " in await psql.value(statement)
    assert await psql.rows("SELECT permission, budget, until IS NOT NULL FROM admin.grants") == [("admin", 70000, True)]
    parley.model.play([call, "Done."])
    await ann(parley)
    assert posts == ["hello"]

    async def ends(_body: object, _number: int) -> Answer:
        # Within the turn, too.
        await psql.run("UPDATE users SET permission_until = now() - interval '1 second'")
        parley.model.play(["Done."])
        return call

    parley.model.play(ends)
    result = (await ann(parley)).tool_calls_made[0].result
    await ann(parley)

    assert (posts, result["error"]) == (["hello"], True)
    assert "wall__post" not in str(parley.model.requests[-1].body["tools"])
    assert await psql.value("SELECT permission FROM admin.users") == "guest"
    assert await parley.value("SELECT parley_end_grants()") == 1
    assert await psql.rows("SELECT who, after ->> 'permission_level' FROM admin.audit LIMIT 1") == [
        ("end of a grant", "guest")
    ]
    with pytest.raises(asyncpg.RaiseError, match="has passed already"):
        await psql.run("SELECT admin.grant_permission('discord', 'Ann', 'admin', '2020-01-01')")


async def test_a_permission_without_an_end_takes_the_place_of_one_with_an_end(parley: Parley, psql: Psql) -> None:
    await ann(parley)
    for level in ("admin", "user"):
        await psql.run(f"SELECT admin.grant_permission('discord', 'Ann', '{level}', now() + interval '1 day')")
    assert await psql.value("SELECT permission_after FROM users") == "guest"

    await psql.run("UPDATE users SET permission_level = 'admin'")

    assert await psql.rows("SELECT permission_until, token_budget_monthly FROM users") == [(None, None)]


async def test_the_view_makes_a_permission_lasting_and_gives_it_an_end(parley: Parley, psql: Psql) -> None:
    await ann(parley)
    state = "SELECT permission, permission_until IS NULL, budget IS NULL FROM admin.users"
    await psql.run("SELECT admin.grant_permission('discord', 'Ann', 'admin', now() + interval '1 day')")
    await psql.run("UPDATE admin.users SET name = 'Dr. Ann'")
    assert await psql.rows(state) == [("admin", False, False)], "a name has nothing to do with the end"

    await psql.run("UPDATE admin.users SET permission = 'admin'")
    assert await psql.rows(state) == [("admin", True, True)]

    await psql.run("UPDATE admin.users SET permission = 'guest'")
    await psql.run("UPDATE admin.users SET permission = 'user', permission_until = now() + interval '1 day'")
    assert await psql.rows(state) == [("user", False, False)]
    await psql.run("UPDATE admin.users SET permission_until = NULL")
    assert await psql.rows(state) == [("user", True, False)]


async def test_a_permission_named_in_the_view_lasts_whatever_else_changes_with_it(parley: Parley, psql: Psql) -> None:
    await ann(parley)
    for_a_day = "SELECT admin.grant_permission('discord', 'Ann', 'admin', now() + interval '1 day')"
    state = "SELECT permission, permission_until IS NULL, budget, name, time_zone FROM admin.users"
    await psql.run(for_a_day)
    await psql.run("UPDATE admin.users SET permission = 'admin', permission_until = permission_until, name = 'Dr. Ann'")
    assert await psql.rows(state) == [("admin", False, 5000, "Dr. Ann", "UTC")], "it names the end, too"

    await psql.run("UPDATE admin.users SET permission = 'admin', name = 'Ann'; UPDATE admin.users SET budget = 5")
    assert await psql.rows(state) == [("admin", True, 5, "Ann", "UTC")]

    await psql.run(for_a_day)
    await psql.run("UPDATE admin.users SET permission = 'admin', budget = 7, time_zone = 'Asia/Tokyo'")
    assert await psql.rows(state) == [("admin", True, 7, "Ann", "Asia/Tokyo")]

    statements = ("UPDATE admin.users SET permission = 'admin'", for_a_day, "UPDATE admin.users SET name = 'A'")
    await psql.run("; ".join(("BEGIN", *statements, "COMMIT")))
    assert await psql.rows(state) == [("admin", False, 7, "A", "Asia/Tokyo")], "a statement says nothing of the next"


async def test_a_permission_that_has_ended_counts_nowhere(parley: Parley, psql: Psql) -> None:
    await ann(parley)
    await psql.run("SELECT admin.grant_permission('discord', 'Ann', 'admin', now() + interval '1 day')")
    await psql.run("SELECT admin.set_limit('permission', tokens => 1, permission => 'admin')")
    await psql.run("UPDATE users SET permission_until = now() - interval '1 second'")
    parley.model.play(["ok"])

    reply = await parley.ask("hello", platform="discord", user="222", server="42", username="Ann")

    assert (reply.error, await psql.value("SELECT tokens_used FROM budgets")) == (None, 0)
    turn = await psql.value("SELECT max(id) FROM turns")
    assert await psql.value(f"SELECT parley_explain_turn({turn}) -> 'person' ->> 'permission'") == "guest"


async def test_people_are_called_as_their_account_is_until_somebody_names_them(parley: Parley, psql: Psql) -> None:
    await ann(parley)
    assert await psql.value("SELECT display_name FROM users") == "Ann"
    await parley.ask("hello", platform="discord", user="222", server="42", username="Annie")
    assert await psql.value("SELECT name FROM admin.users") == "Annie"
    assert "Annie: hello" in str(parley.model.requests[-1].body["messages"])

    await psql.run(
        "UPDATE admin.users SET name = 'Dr. Ann', budget = 70000, permission = 'user', time_zone = 'Asia/Tokyo'"
    )
    await parley.ask("hello again", platform="discord", user="222", server="42", username="Ann")

    assert "Dr. Ann: hello again" in str(parley.model.requests[-1].body["messages"])
    rows = await psql.rows("SELECT permission_level, token_budget_monthly, time_zone FROM users")
    assert rows == [("user", 70000, "Asia/Tokyo")]
    with pytest.raises(
        asyncpg.RaiseError, match="only name, permission, permission_until, budget and time_zone can be changed"
    ):
        await psql.run("UPDATE admin.users SET used = 0")


async def test_a_persona_is_changed_in_its_view_and_deleted_with_its_history(parley: Parley, psql: Psql) -> None:
    await psql.run("SELECT admin.create_persona('Sage', 'You are wise.')")
    await psql.run("SELECT admin.set_default_persona('Sage')")
    await psql.run("UPDATE admin.personas SET system_prompt = 'You are brief.', modules = '[\"calendar\"]'")
    await ann(parley)
    body = parley.model.requests[-1].body
    assert body["messages"][0]["content"].startswith("You are brief.")
    with pytest.raises(asyncpg.RaiseError, match="can be changed"):
        await psql.run("UPDATE admin.personas SET turns = 0")
    with pytest.raises(asyncpg.RaiseError, match="history => true"):
        await psql.run("SELECT admin.delete_persona('Sage')")

    assert await psql.value("SELECT admin.delete_persona('Sage', history => true)") == "the persona Sage is deleted"

    with pytest.raises(asyncpg.RaiseError, match="there are: none yet"):
        await psql.run("SELECT admin.delete_persona('Sage')")


async def test_an_erased_person_is_gone_with_their_files(parley: Parley, psql: Psql) -> None:
    answer = Answer("", tool_calls=[("file_manager__create_document", {"title": "t", "content": "x", "format": "txt"})])
    parley.model.play([answer, "Made."])
    await ann(parley, server=None)
    [(key,)] = await psql.rows("SELECT minio_key FROM file_records")
    with pytest.raises(asyncpg.RaiseError, match=r"1 turns, 0 memories and 1 files of Ann .*say sure => true"):
        await psql.run("SELECT admin.erase_user('discord', 'Ann')")

    assert "is being erased" in await psql.value("SELECT admin.erase_user('discord', 'Ann', sure => true)")
    assert await finish_erasures(parley.app.database, parley.app.files.storage) == 1

    assert await psql.rows("TABLE users") == await psql.rows("TABLE file_records") == []
    with pytest.raises(NotFound):
        await parley.app.files.storage.size(key)
    await psql.run("INSERT INTO users (permission_level) VALUES ('owner')")
    await psql.run(
        "INSERT INTO user_platform_links (user_id, platform, platform_user_id) SELECT id, 'x', 'o' FROM users"
    )
    with pytest.raises(asyncpg.RaiseError, match="o is the last owner"):
        await psql.run("SELECT admin.erase_user('x', 'o', sure => true)")


async def test_two_people_become_one_with_all_that_they_have(parley: Parley, psql: Psql) -> None:
    remember = Answer("", tool_calls=[("knowledge__remember", {"content": "Ann likes marzipan."})])
    parley.model.play([remember, "ok"])
    await parley.ask("remember it", platform="slack", user="U1", username="ann.lee")
    parley.model.play([remember, "ok"])
    await ann(parley, server=None)
    tokens = await parley.value("SELECT sum(tokens_used_this_month) FROM users")

    merged = await psql.value("SELECT admin.merge_users('slack', 'U1', 'discord', 'Ann')")

    assert merged.startswith("U1 is Ann of discord now")
    assert await psql.rows("SELECT name, used, accounts FROM admin.users") == [("Ann", tokens, "slack:U1, discord:222")]
    for table in ("turns", "messages", "memories", "token_logs", "conversations"):
        assert await psql.rows(f"SELECT DISTINCT user_id FROM {table}") == [(2,)]  # noqa: S608  # names of ours
    await parley.app.memory.index_missing()
    parley.model.play(["Marzipan."])
    await parley.ask("what do I like?", platform="slack", user="U1", username="ann.lee")
    assert "Ann likes marzipan." in str(parley.model.requests[-1].body["messages"])
    with pytest.raises(asyncpg.RaiseError, match="the same person already"):
        await psql.run("SELECT admin.merge_users('slack', 'U1', 'discord', 'Ann')")


@pytest.mark.settings(default_guest_token_budget=50_000)
async def test_a_budget_follows_the_permission_wherever_it_is_changed(parley: Parley, psql: Psql) -> None:
    await ann(parley)
    for_a_day = "SELECT admin.grant_permission('discord', 'Ann', 'admin', now() + interval '1 day')"
    state = "SELECT permission_level, token_budget_monthly, permission_until IS NULL FROM users WHERE id = {}"
    state = state.format(await psql.value("SELECT id FROM admin.users WHERE name = 'Ann'"))
    limited = await psql.value("SELECT token_budget_monthly FROM users LIMIT 1")
    await psql.run(for_a_day)
    # For ever now: nothing ends, and nobody is a guest without a limit.
    await psql.run("SELECT admin.grant_permission('discord', 'Ann', 'admin')")
    assert await psql.rows(state) == [("admin", None, True)]
    await psql.run("SELECT admin.grant_permission('discord', 'Ann', 'guest')")
    assert await psql.rows(state) == [("guest", limited, True)]

    await psql.run("UPDATE users SET permission_level = 'admin'")
    await psql.run("UPDATE users SET permission_level = 'user'")
    assert await psql.rows(state) == [("user", limited, True)]
    await psql.run(for_a_day)
    await psql.run("SELECT admin.set_budget('discord', 'Ann', NULL)")
    await psql.run("UPDATE users SET permission_until = now() - interval '1 second'")
    await psql.run("SELECT parley_end_grants()")
    assert await psql.rows(state) == [("user", limited, True)]


@pytest.mark.settings(default_guest_token_budget=7_000_000)
async def test_a_permission_that_ends_leaves_the_guests_budget_of_the_settings(parley: Parley, psql: Psql) -> None:
    await ann(parley)
    await psql.run("SELECT admin.grant_permission('discord', 'Ann', 'admin', now() + interval '1 day')")
    await psql.run("SELECT admin.set_budget('discord', 'Ann', NULL)")
    await psql.run("UPDATE users SET permission_until = now() - interval '1 second'")

    await Steps(parley.app.database, parley.app.clock).run(statements.end_grants)

    assert await psql.rows("SELECT permission_level, token_budget_monthly FROM users") == [("guest", 7_000_000)]


@pytest.mark.settings(default_guest_token_budget=7_000_000)
async def test_whoever_becomes_a_guest_in_psql_has_the_budget_of_the_settings(parley: Parley, psql: Psql) -> None:
    await ann(parley)
    await psql.run("UPDATE users SET permission_level = 'admin'")
    await psql.run("UPDATE users SET permission_level = 'guest'")
    await psql.run("INSERT INTO users (display_name) VALUES ('Bob')")

    assert await psql.rows("SELECT DISTINCT token_budget_monthly FROM users") == [(7_000_000,)]


async def test_a_token_for_the_api_is_given_and_revoked_by_an_admin(parley: Parley, psql: Psql) -> None:
    await ann(parley)
    await psql.run("SELECT admin.create_token('discord', 'Ann', name => 'laptop')")
    tokens = await parley.sql("SELECT person, name, scopes, expires_at, revoked_at FROM admin.tokens")
    await psql.run("SELECT admin.revoke_token(1)")

    assert [tuple(row) for row in tokens] == [("Ann", "laptop", ["chat", "read"], None, None)]
    assert await parley.value("SELECT revoked_at IS NOT NULL AND token_hash IS NULL FROM api_tokens")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await psql.run("SELECT token_hash FROM api_tokens")
