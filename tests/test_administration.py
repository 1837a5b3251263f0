"""What admins change is logged, can be undone, and reads well: the schema `admin` and `audit_log`."""

import json
from collections.abc import AsyncIterator

import asyncpg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from adapters.cli.compose import note_known_words
from shared.db.database import Address
from shared.db.roles import ADMIN_ROLE, READONLY_ROLE, ROLES
from tests.support.parley import Parley
from tests.support.psql import Psql, psql_session

PEOPLE = """
INSERT INTO users (permission_level) VALUES ('owner'), ('guest');
INSERT INTO user_platform_links (user_id, platform, platform_user_id, platform_username)
VALUES (1, 'discord', '111', 'olga'), (2, 'discord', '222', 'Ann');
INSERT INTO personas (name, system_prompt) VALUES ('Sage', 'You are wise.');
"""

REFUSED = {
    "modules => '{calender}'": 'there is no module "calender"; do you mean calendar',
    "modules => '{knowledge,zzz}'": 'there is no module "zzz"; there are: agents, .*calculator',
    "platform => 'Diskord'": 'there is no platform "Diskord"; do you mean discord',
    "model => 'opnai/gpt-4o'": 'there is no model "opnai/gpt-4o"; do you mean openai/gpt-4o',
}
ALLOWED = {
    "modules => '{calendar,agents,tickets}', model => 'openai/stub', platform => 'web'": [],
    "model => 'openai/gpt-4o-mnii'": ['the model "openai/gpt-4o-mnii" is in no list; do you mean openai/gpt-4o-mini?'],
    # The stand-in is a server of one's own.
    "model => 'our-own-model-of-1999'": ['the model "our-own-model-of-1999" is in no list'],
    "platform => 'townhall'": [
        (
            'nobody has written from the platform "townhall" yet; there are: a2a, discord, matrix, openai, slack,'
            " terminal, web"
        )
    ],
}


@pytest.fixture
async def psql(address: Address) -> AsyncIterator[Psql]:
    async with psql_session(address, role=ADMIN_ROLE) as psql:
        await psql.run(PEOPLE)
        yield psql


async def test_every_change_of_an_admin_is_logged_and_can_be_undone(psql: Psql) -> None:
    assert await psql.value("SELECT admin.set_budget('discord', 'ann', 70000)") == "ann may use 70000 tokens in 30 days"
    rows = await psql.rows('SELECT action, "table", row_id, before, after FROM admin.audit LIMIT 1')
    assert rows == [
        ("update", "users", 2, '{"token_budget_monthly": 50000}', '{"token_budget_monthly": 70000}'),
    ]
    first = await psql.last()

    result = await psql.value(f"SELECT admin.undo({first})")

    assert "token_budget_monthly" in result
    assert await psql.value("SELECT budget FROM admin.users WHERE id = 2") == 50000
    assert (first, await psql.last()) in await psql.rows("SELECT id, undone_by FROM admin.audit")
    with pytest.raises(asyncpg.RaiseError, match="is undone already"):
        await psql.run(f"SELECT admin.undo({first})")
    # The undoing can be undone.
    await psql.run(f"SELECT admin.undo({await psql.last()})")
    assert await psql.value("SELECT budget FROM admin.users WHERE id = 2") == 70000


async def test_a_deleted_persona_comes_back_and_an_added_one_goes(psql: Psql) -> None:
    await psql.run(
        "UPDATE personas SET allowed_modules = '[\"knowledge\"]', default_model = 'gpt-x' WHERE name = 'Sage'"
    )
    before = await psql.rows("SELECT id, name, system_prompt, allowed_modules, default_model FROM personas")
    await psql.run("DELETE FROM personas")
    await psql.run(f"SELECT admin.undo({await psql.last()})")
    assert await psql.rows("SELECT id, name, system_prompt, allowed_modules, default_model FROM personas") == before

    assert "on the server 42" in await psql.value(
        "SELECT admin.create_persona('Guide', 'Guide.', platform => 'discord', server => '42', modules => '{calendar}')"
    )
    assert await psql.value("SELECT allowed_modules FROM personas WHERE name = 'Guide'") == '["calendar"]'
    await psql.run(f"SELECT admin.undo({await psql.last()})")
    assert await psql.value("SELECT count(*) FROM personas") == 1


@pytest.mark.parametrize(
    ("table", "insert", "change"),
    [
        ("skills", "(name, description, body) VALUES ('notes', 'Takes notes.', 'Do.')", "body = 'Do more.'"),
        ("memory_retention", "(kind, kept_days) VALUES ('turn', 30)", "kept_days = 31"),
        ("role_grants", "(server, role, permission_level) VALUES ('42', '7', 'admin')", "token_budget = 9"),
        ("channel_modes", "(platform_channel_id, mode) VALUES ('9', 'always')", "mode = 'off'"),
        (
            "mcp_servers",
            "(name, transport, command) VALUES ('tickets', 'stdio', '/bin/true')",
            "args = '[\"-x\"]', enabled = false",
        ),
        ("agents", "(name, description, persona_id) VALUES ('sage', 'Knows.', 1)", "is_enabled = false"),
        ("servers", "(platform_server_id, token_budget_monthly) VALUES ('42', 5)", "token_budget_monthly = 6"),
        (
            "data_sources",
            "(name, kind, path) VALUES ('sales', 'file', '/srv/sales.csv')",
            "allowed_roles = '[\"user\"]'",
        ),
        (
            "personas",
            "(name, system_prompt, allowed_modules) VALUES ('Two', 'You are two.', '[\"calendar\"]')",
            "skills = '[\"notes\"]', allowed_modules = NULL",
        ),
        ("budgets", "(kind, cost_limit) VALUES ('installation', 5)", "cost_limit = 6"),
        (
            "budget_grants",
            "(limit_user_id, status, tokens, ends_at) VALUES (2, 'granted', 5, 'infinity')",
            "tokens = 6",
        ),
        ("model_prices", "(model) VALUES ('mine')", "per_image = 1"),
    ],
)
async def test_a_row_of_each_table_is_logged_and_each_change_of_it_taken_back(
    psql: Psql, table: str, insert: str, change: str
) -> None:
    newest = f"SELECT to_jsonb(t)::text FROM {table} AS t ORDER BY id DESC LIMIT 1"  # noqa: S608  # names of ours
    before = await psql.value(newest)
    logged = []
    await psql.run(f"INSERT INTO {table} {insert}")
    row = await psql.value(newest)
    for statement in (f"UPDATE {table} SET {change}", f"DELETE FROM {table}"):  # noqa: S608  # names of ours
        await psql.run(f"{statement} WHERE id = {json.loads(row)['id']}")
        assert await psql.value(newest) != row
        await psql.run(f"SELECT admin.undo({await psql.last()})")
        logged += await psql.rows('SELECT "table", action FROM admin.audit WHERE undoes IS NULL LIMIT 1')
        came_back = json.loads(await psql.value(newest))
        # A limit that comes back begins anew.
        times = {"created_at": None, "resets_at": None}
        assert came_back | times == json.loads(row) | times
    assert logged == [(table, "update"), (table, "delete")]

    inserted = await psql.value(
        "SELECT min(id) FROM audit_log WHERE table_name = $1 AND row_id = $2", table, came_back["id"]
    )
    await psql.run(f"SELECT admin.undo({inserted})")

    assert await psql.value(newest) == before


async def test_an_account_that_was_linked_goes_back(psql: Psql) -> None:
    await psql.run("SELECT admin.link_accounts('discord', '222', 'discord', 'olga')")
    assert await psql.rows("SELECT DISTINCT user_id FROM user_platform_links") == [(1,)]

    await psql.run(f"SELECT admin.undo({await psql.last()})")

    assert await psql.value("SELECT user_id FROM user_platform_links WHERE platform_user_id = '222'") == 2


async def test_limits_are_set_shown_extended_and_lifted(psql: Psql) -> None:
    limit = "SELECT admin.set_limit('person', {} platform => 'discord', account => 'ann', period => 'day')"
    assert "may use 500 tokens and 2 dollars in a day" in await psql.value(limit.format("500, dollars => 2,"))
    assert "900 tokens" in await psql.value(limit.format("900,"))
    number = await psql.value("SELECT id FROM budgets")
    await psql.run(f"SELECT admin.grant_more('budgets', {number}, now() + interval '1 day', 100)")
    await psql.run("UPDATE budgets SET tokens_used = 50, tokens_reserved = 10, resets_at = now() + interval '1 hour'")
    query = 'SELECT kind, name, period, unit, allowed, granted, used, reserved, "left" FROM admin.budgets'
    assert await psql.rows(f"{query} WHERE period = 'day'") == [
        ("person", "Ann", "day", "tokens", 900, 100, 50, 10, 940),
    ]
    assert await psql.value("SELECT count(*) FROM admin.budgets WHERE period = '30 days'") == 2, "of each person"
    assert "no limit for a day any more" in await psql.value(limit.format(""))
    assert await psql.rows("TABLE budgets") == []


async def test_what_was_changed_again_is_not_undone(psql: Psql) -> None:
    await psql.run("SELECT admin.set_budget('discord', 'ann', 1)")
    first = await psql.last()
    await psql.run("SELECT admin.set_budget('discord', 'ann', 2)")

    with pytest.raises(asyncpg.RaiseError, match="has been changed since"):
        await psql.run(f"SELECT admin.undo({first})")
    with pytest.raises(asyncpg.RaiseError, match="no entry 4711"):
        await psql.run("SELECT admin.undo(4711)")


NONSENSE = [
    ("SELECT admin.set_budget('dicsord', 'ann', 5)", "there are accounts on: discord"),
    ("SELECT admin.set_budget('discord', 'nobody', 5)", "no account nobody"),
    ("SELECT admin.set_budget('discord', 'ann', -5)", "a budget is 0"),
    ("SELECT admin.set_server_budget('discord', '42', -5)", "a budget is 0"),
    ("SELECT admin.grant_permission('discord', 'ann', 'boss')", "there are: guest, user, admin, owner"),
    ("SELECT admin.grant_permission('discord', 'olga', 'user')", "last owner"),
    ("SELECT admin.set_default_persona('Sge')", "there are: Sage"),
    ("SELECT admin.create_persona('Empty', ' ')", "needs instructions"),
    ("SELECT admin.create_persona('Lost', 'x', server => '42')", "needs its platform"),
    ("SELECT admin.set_limit('sever', 5)", "there are: person, permission, role, channel"),
    ("SELECT admin.set_limit('server', 5, platform => 'discord')", "needs: platform and server"),
    ("SELECT admin.set_limit('installation', 5, period => 'week')", "a day or a month"),
    ("SELECT admin.set_limit('installation', dollars => -1)", "a limit is 0"),
    ("SELECT admin.set_limit('persona', 5, persona => 'Sge')", "there are: Sage"),
    ("SELECT admin.set_limit('permission', 5, permission => 'boss')", "there are: guest, user"),
    ("SELECT admin.grant_more('budgets', 4711, 'infinity', 5)", "there is no limit budgets 4711"),
    ("SELECT admin.grant_more('users', 2, now(), 5)", "ends in the future"),
    ("SELECT admin.link_accounts('discord', 'ann', 'discord', '222')", "the same person already"),
]


async def test_nonsense_is_refused_with_what_would_be_valid(psql: Psql, subtests: pytest.Subtests) -> None:
    for statement, sentence in NONSENSE:
        with subtests.test(statement), pytest.raises(asyncpg.RaiseError, match=sentence):
            await psql.run(statement)


async def test_what_the_program_knows_is_suggested_and_what_may_exist_is_only_warned_of(
    parley: Parley, address: Address, loaded: None
) -> None:
    await parley.app.models.router.warm()
    for _ in range(2):
        await note_known_words(parley.app)
    open_threads = await parley.sql("SELECT word FROM known_words WHERE kind = 'open_threads' ORDER BY word")
    assert open_threads == [("matrix",), ("slack",)]
    async with psql_session(address, role=ADMIN_ROLE) as psql:
        persona = "SELECT admin.create_persona('{}', 'Hello.', {})"
        for number, (arguments, sentence) in enumerate(REFUSED.items()):
            with pytest.raises(asyncpg.RaiseError, match=sentence):
                await psql.run(persona.format(number, arguments))
        # A server's own model, a platform that is like no other, and an MCP server's name.
        for number, (options, warning) in enumerate(ALLOWED.items()):
            await psql.run(
                "INSERT INTO mcp_servers (name, transport, command) VALUES ('tickets', 'stdio', '/bin/true')"
                " ON CONFLICT DO NOTHING"
            )
            warned = await psql.warned(persona.format(f"allowed {number}", options))
            assert warned == warning
        # What is old stays changeable, and an undoing is never refused.
        await psql.run("DELETE FROM mcp_servers; UPDATE personas SET system_prompt = 'Hi.'")
        await psql.run("DELETE FROM personas WHERE name = 'allowed 0'")
        await psql.run(f"SELECT admin.undo({await psql.last()})")


async def test_a_history_is_deleted_only_by_who_says_so(parley: Parley, address: Address) -> None:
    async with psql_session(address, role=ADMIN_ROLE) as psql:
        await psql.run("INSERT INTO personas (name, system_prompt, is_default) VALUES ('Sage', 'You are wise.', true)")
        await parley.ask("hello")
        for table in ("users", "personas"):
            deleted = f"DELETE FROM {table}"  # noqa: S608  # names of ours
            with pytest.raises(asyncpg.RaiseError, match=r"a history|has answered turns"):
                await psql.run(deleted)
            await psql.run(f"BEGIN; SET LOCAL parley.delete_history = 'yes'; {deleted}; COMMIT")
            assert await psql.rows(f"TABLE {table}") == []


async def test_somebody_stays_owner(psql: Psql) -> None:
    for statement in ("UPDATE users SET permission_level = 'admin' WHERE id = 1", "DELETE FROM users WHERE id = 1"):
        with pytest.raises(asyncpg.RaiseError, match="olga is the last owner; make somebody else owner first"):
            await psql.run(statement)
    await psql.run("UPDATE users SET permission_level = 'owner' WHERE id = 2")
    await psql.run("UPDATE users SET permission_level = 'admin' WHERE id = 1")
    with pytest.raises(asyncpg.RaiseError, match="Ann is the last owner"):
        await psql.run("DELETE FROM users WHERE id = 2")


@given(one=st.text("abc", max_size=6), other=st.text("abc", max_size=6))
@example("dicsord", "discord")
@example("Knowlege", "knowledge")
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_the_distance_of_words_is_the_number_of_changes(psql: Psql, one: str, other: str) -> None:
    assert await psql.value(f"SELECT parley_distance('{one}', '{other}')") == distance(one.lower(), other.lower())


def distance(one: str, other: str) -> int:
    """The same by recursion: optimal string alignment."""
    if not (one and other):
        return len(one) + len(other)
    cost = min(
        distance(one[:-1], other) + 1,
        distance(one, other[:-1]) + 1,
        distance(one[:-1], other[:-1]) + (one[-1] != other[-1]),
    )
    if one[-2:] == other[-2:][::-1] and len(one) > 1 and len(other) > 1:
        cost = min(cost, distance(one[:-2], other[:-2]) + 1)
    return cost


async def test_a_changed_log_shows(psql: Psql, address: Address) -> None:
    for budget in (1, 2, 3):
        await psql.run(f"SELECT admin.set_budget('discord', 'ann', {budget})")
    entries, last_hash, broken = (await psql.rows("SELECT * FROM parley_verify_audit()"))[0]
    assert (entries, broken) == (await psql.value("SELECT count(*) FROM audit_log"), None)
    assert len(last_hash) == 64

    for role in ROLES:
        async with psql_session(address, role=role) as other:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await other.run("DELETE FROM audit_log WHERE id = 3")
    # Somebody with all rights over the database can change it; the chain tells.
    async with psql_session(address, as_owner=True) as owner:
        with pytest.raises(asyncpg.RaiseError, match="append-only"):
            await owner.run("UPDATE audit_log SET actor = 'somebody else'")
        await owner.run("SET session_replication_role = replica; UPDATE audit_log SET new_values = '{}' WHERE id = 3")
        assert await psql.value("SELECT first_broken FROM parley_verify_audit()") == 3
        await owner.run("DELETE FROM audit_log WHERE id = 3")
        assert await psql.value("SELECT first_broken FROM parley_verify_audit()") == 4


async def test_admins_see_people_and_no_keys_and_who_only_reads_sees_nothing_that_people_wrote(
    psql: Psql, address: Address
) -> None:
    await psql.run("INSERT INTO memories (user_id, content) VALUES (2, 'Ann likes marzipan.')")
    assert await psql.value("SELECT content FROM memories") == "Ann likes marzipan."
    keys = await psql.rows("""
        SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'
            AND column_name ~ '(^token|secret|password_hash|pairing_hash|state_hash)$'
            AND has_column_privilege('parley_admin', format('public.%I', table_name), column_name, 'SELECT')
    """)
    assert keys == []
    tables = "relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"
    may = f"has_table_privilege('{READONLY_ROLE}', oid, 'INSERT, UPDATE, DELETE, TRUNCATE')"
    query = f"SELECT format('%I', relname) FROM pg_class WHERE {tables} AND {may}"  # noqa: S608  # our own text
    assert await psql.rows(query) == []

    async with psql_session(address, role=READONLY_ROLE) as reader:
        assert ("Ann", 1) in await reader.rows("SELECT name, memories FROM admin.memories_by_user")
        for table in (
            "messages",
            "memories",
            "memory_words",
            "inbox",
            "outbox",
            "summaries",
            "turn_events",
            "bookings",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await reader.rows(f"TABLE {table}")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await reader.run("SELECT admin.set_budget('discord', 'ann', 5)")


async def test_turns_log_nothing_and_the_views_show_what_they_cost(parley: Parley, address: Address) -> None:
    parley.model.play(["Hello."])
    await parley.ask("hi", platform="discord", user="222", server="42", channel="general", username="Ann")
    before = await parley.value("SELECT count(*) FROM audit_log")
    await parley.ask("hi again", platform="discord", user="222", server="42", channel="general", username="Ann")
    assert await parley.value("SELECT count(*) FROM audit_log") == before

    async with psql_session(address, role=READONLY_ROLE) as psql:
        names = await psql.rows("SELECT table_name FROM information_schema.views WHERE table_schema = 'admin'")
        for (name,) in names:
            await psql.rows(f"TABLE admin.{name}")
        [(name, calls)] = await psql.rows("SELECT name, calls FROM admin.spend_by_user")
        [(server, people)] = await psql.rows("SELECT server, people FROM admin.spend_by_server")
        turns = await psql.rows("SELECT name, platform, channel, status FROM admin.turns")
        stuck = await psql.rows("SELECT * FROM admin.stuck")
        uncommented = await psql.rows("""
            SELECT relname FROM pg_class WHERE relnamespace = 'admin'::regnamespace AND obj_description(oid) IS NULL
                AND relkind = 'v'
            UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = 'admin'::regnamespace
                AND obj_description(oid) IS NULL
        """)

    assert (name, calls) == ("Ann", 2)
    assert (server, people) == ("42", 1)
    assert turns == [("Ann", "discord", "general", "answered")] * 2
    assert (stuck, uncommented) == ([], [])


async def test_each_change_of_a_persona_is_a_version_and_can_be_rolled_back(psql: Psql) -> None:
    await psql.run("UPDATE personas SET system_prompt = 'You are wiser.', default_model = 'gpt-x'")
    await psql.run("UPDATE personas SET default_model = 'gpt-x'")
    assert await psql.rows("SELECT version, action, system_prompt, model FROM admin.persona_versions") == [
        (2, "update", "You are wiser.", "gpt-x"),
        (1, "insert", "You are wise.", None),
    ]

    assert await psql.value("SELECT admin.rollback_persona('Sage', 1)") == (
        "Sage is as in version 1 again; this is its version 3"
    )

    assert await psql.rows("SELECT system_prompt, default_model FROM personas") == [("You are wise.", None)]
    # The rollback is a change as any other.
    await psql.run(f"SELECT admin.undo({await psql.last()})")
    assert await psql.value("SELECT system_prompt FROM personas") == "You are wiser."
    await psql.run("DELETE FROM personas")
    assert await psql.value("SELECT admin.rollback_persona('Sage', 2)") == (
        "Sage is as in version 2 again; this is its version 6"
    )
    assert await psql.rows("SELECT name, system_prompt FROM personas") == [("Sage", "You are wiser.")]
    for statement, reason in (
        ("SELECT admin.rollback_persona('Sage', 9)", "has the versions 1 to 6, not 9"),
        ("SELECT admin.rollback_persona('Sague', 1)", "there is no persona 'Sague'; there are: Sage"),
        ("UPDATE persona_versions SET version = 7 WHERE version = 6", "append-only"),
        ("DELETE FROM persona_versions", "append-only"),
    ):
        with pytest.raises(asyncpg.RaiseError, match=reason):
            await psql.run(statement)
