"""Secrets that admins type into rows are not in the log of changes."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from shared.db.database import Address
from shared.db.roles import ADMIN_ROLE, READONLY_ROLE
from tests.shared.test_redaction import FORMS
from tests.support.psql import Psql, psql_session


@pytest.fixture
async def psql(address: Address) -> AsyncIterator[Psql]:
    async with psql_session(address, role=ADMIN_ROLE) as psql:
        await psql.run("INSERT INTO personas (name, system_prompt) VALUES ('Sage', 'You are wise.')")
        yield psql


TYPED = {
    "mcp_servers": (
        """
        (name, transport, url, headers) VALUES ('tickets', 'http', 'https://example.org/mcp?api_key=hunter2secret',
        '{"Authorization": "Bearer hunter2secret", "X-Own": "hunter2secret", "X-Ours": "Bearer ${MCP_TICKETS}"}')
        """,
        """headers = '{"X-Own": "hunter3secret"}'""",
    ),
    "agents": (
        """
        (name, description, url, headers) VALUES ('peer', 'Knows.', 'https://example.org',
        '{"Authorization": "Basic hunter2secret"}')
        """,
        """headers = '{"Authorization": "Basic hunter3secret"}'""",
    ),
}


@pytest.mark.parametrize("table", TYPED)
async def test_a_secret_that_is_typed_into_a_row_is_not_in_the_log(psql: Psql, address: Address, table: str) -> None:
    insert, change = TYPED[table]
    await psql.run(f"INSERT INTO {table} {insert}")
    await psql.run(f"UPDATE {table} SET {change}")  # noqa: S608
    updated = await psql.last()
    await psql.run(f"DELETE FROM {table}")  # noqa: S608

    async with psql_session(address, role=READONLY_ROLE) as reader:
        logged = str(await reader.rows("SELECT * FROM admin.audit")) + str(await reader.rows("TABLE audit_log"))
    assert "hunter" not in logged
    assert logged.count("[secret-removed]") >= 4
    assert table == "agents" or "Bearer ${MCP_TICKETS}" in logged
    assert "write the secrets anew that the log does not keep, in headers" in await psql.value(
        f"SELECT admin.undo({await psql.last()})"
    )
    with pytest.raises(asyncpg.RaiseError, match="headers held a secret, which the log does not keep"):
        await psql.run(f"SELECT admin.undo({updated})")
    assert await psql.rows("SELECT first_broken FROM parley_verify_audit()") == [(None,)]


async def test_a_secret_that_goes_can_be_replaced_by_a_variable_and_that_be_taken_back_again(psql: Psql) -> None:
    await psql.run(
        "INSERT INTO mcp_servers (name, transport, url) VALUES ('tickets', 'http', 'https://example.org/mcp')"
    )
    await psql.run("""UPDATE mcp_servers SET headers = '{"Authorization": "Bearer hunter2secret"}'""")

    await psql.run(f"SELECT admin.undo({await psql.last()})")

    assert await psql.value("SELECT headers FROM mcp_servers") == "{}"


async def test_the_log_of_changes_and_the_log_of_the_program_know_the_same_secrets(
    psql: Psql, subtests: pytest.Subtests
) -> None:
    await psql.run("INSERT INTO agents (name, description, persona_id) VALUES ('sage', 'Knows.', 1)")

    for form, (around, secret) in FORMS.items():
        with subtests.test(form):
            await psql.value("UPDATE agents SET description = $1 RETURNING id", around.format(secret))

            assert secret not in await psql.value("SELECT string_agg(after ->> 'description', '') FROM admin.audit")
    assert await psql.value("SELECT count(*) FROM admin.audit WHERE after ? 'description'") > len(FORMS)
