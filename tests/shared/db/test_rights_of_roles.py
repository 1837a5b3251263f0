"""What the roles of people who work by SQL may do beside the tables that they are granted."""

import asyncpg
import pytest

from shared.db.database import Address
from shared.db.roles import READONLY_ROLE
from tests.support.connections import connected

FUNCTIONS = """
SELECT proname AS name, prorettype = 'trigger'::regtype AS is_trigger, has_function_privilege(oid, 'EXECUTE') AS may_run
FROM pg_proc WHERE prosecdef AND pronamespace = 'public'::regnamespace
"""


async def test_who_only_reads_makes_no_trigger_that_acts_as_the_owner(address: Address) -> None:
    async with connected(address, role=READONLY_ROLE) as reader:
        await reader.execute("CREATE TEMP TABLE own (user_id bigint, memory_id bigint, scope_id bigint)")
        triggers = [row["name"] for row in await reader.fetch(FUNCTIONS) if row["is_trigger"]]

        assert triggers
        for name in triggers:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await reader.execute(
                    f"CREATE TRIGGER t BEFORE INSERT ON own FOR EACH ROW EXECUTE FUNCTION public.{name}()"
                )


async def test_who_only_reads_runs_nothing_as_the_owner_but_the_count_of_memories(address: Address) -> None:
    async with connected(address, role=READONLY_ROLE) as reader:
        may_run = [row["name"] for row in await reader.fetch(FUNCTIONS) if row["may_run"]]

    assert may_run == ["parley_memories_by_user"]
