"""`parley operator` as a process, with the real kopf, against an API server over HTTP."""

from pathlib import Path

import asyncpg
import pytest

from shared.db.database import Address
from shared.errors import ConfigurationError
from tests.support.command_line import types
from tests.support.kubernetes import operating

PERSONA = "SELECT system_prompt, default_model FROM personas WHERE name = 'Pirate'"
LAST_ACTORS = "SELECT actor FROM audit_log WHERE table_name = $1 ORDER BY id"


async def test_a_resource_becomes_a_row_follows_its_changes_tells_of_drift_and_goes_with_it(
    address: Address, owner: asyncpg.Connection, tmp_path: Path
) -> None:
    async with operating(address, tmp_path) as cluster:
        await cluster.create("Persona", "pirate", {"name": "Pirate", "instructions": "You are a pirate."})
        status = await cluster.until_state("Persona", "pirate", "applied")
        assert (status["row"], status["version"], status["observedGeneration"]) == ("Pirate", 1, 1)
        assert tuple(await owner.fetchrow(PERSONA)) == ("You are a pirate.", None)

        await cluster.change("Persona", "pirate", spec={"model": "openai/large"}, metadata={"generation": 2})
        await cluster.until_state("Persona", "pirate", "applied", version=2, observedGeneration=2)
        assert tuple(await owner.fetchrow(PERSONA)) == ("You are a pirate.", "openai/large")
        assert [row["actor"] for row in await owner.fetch(LAST_ACTORS, "personas")] == ["kubernetes:chat"] * 2

        await owner.execute("UPDATE personas SET default_model = 'openai/small' WHERE name = 'Pirate'")
        status = await cluster.until_state("Persona", "pirate", "drifted")
        assert status["drift"] == ['model: "openai/small" -> "openai/large"']
        assert status["message"].startswith("changed by postgres at ")
        assert status["conditions"][0] | {"lastTransitionTime": ""} == {
            "type": "Ready",
            "status": "False",
            "reason": "Drifted",
            "message": status["message"],
            "lastTransitionTime": "",
        }

        # As everywhere: the change is taken back by its number, and the row is what the resource says again.
        await owner.execute("SELECT admin.undo($1)", status["version"])
        await cluster.until_state("Persona", "pirate", "applied", drift=[])

        # Any change of the resource writes the row anew, also one of its annotations.
        await owner.execute("UPDATE personas SET max_iterations = 7 WHERE name = 'Pirate'")
        await cluster.until_state("Persona", "pirate", "drifted", drift=["steps: 7 -> unset"])
        await cluster.change("Persona", "pirate", metadata={"annotations": {"parley.chat/again": "1"}})
        await cluster.until_state("Persona", "pirate", "applied", drift=[])
        assert await owner.fetchval("SELECT max_iterations FROM personas WHERE name = 'Pirate'") is None

        # An older change of the resource that came after a newer one is the operator's own mistake.
        await owner.execute("""
            SELECT set_config('parley.actor', 'kubernetes:chat', false);
            UPDATE personas SET max_iterations = 9 WHERE name = 'Pirate';
        """)
        status = await cluster.until_state("Persona", "pirate", "applied", version=status["version"] + 5)
        assert await owner.fetchval("SELECT max_iterations FROM personas WHERE name = 'Pirate'") is None

        await cluster.delete("Persona", "pirate")
        await cluster.until("Persona", "pirate", lambda body: not body)
        assert await owner.fetchrow(PERSONA) is None


async def test_a_refused_resource_says_the_databases_sentence_and_is_tried_again(
    address: Address, owner: asyncpg.Connection, tmp_path: Path
) -> None:
    async with operating(address, tmp_path) as cluster:
        await cluster.create("Agent", "scout", {"description": "Finds things.", "persona": "Pirate"})
        await cluster.create("Budget", "pirates", {"kind": "persona", "persona": "Pirate", "tokens": 1000})
        await cluster.create("McpServer", "tickets", {"url": "https://tickets.example.org/mcp", "timeoutSeconds": 6000})
        status = await cluster.until_state("Agent", "scout", "refused")
        assert (status["message"], status.get("row")) == ("there is no persona 'Pirate'; there are: none yet", None)
        await cluster.until_state("Budget", "pirates", "refused")
        wrong = await cluster.until_state("McpServer", "tickets", "refused")
        assert wrong["message"] == "McpServer/tickets: spec.timeoutSeconds: Input should be less than or equal to 600"
        # Nothing was made, so nothing is deleted.
        await owner.execute("SELECT admin.define_mcp_server('tickets', url => 'https://tickets.example.org/mcp')")
        await cluster.delete("McpServer", "tickets")
        await cluster.until("McpServer", "tickets", lambda body: not body)
        assert await owner.fetchval("SELECT count(*) FROM mcp_servers") == 1

        await cluster.create("Persona", "pirate", {"name": "Pirate", "instructions": "You are a pirate."})
        await cluster.until_state("Agent", "scout", "applied", row="scout")
        budget = await cluster.until_state("Budget", "pirates", "applied")
        assert budget["row"] == "month persona - - - - - Pirate -"
        assert "Refused" in {reason for reason, _ in await cluster.list_events()}


async def test_a_row_with_a_history_keeps_its_resource_until_it_may_go_without_it(
    address: Address, owner: asyncpg.Connection, tmp_path: Path
) -> None:
    async with operating(address, tmp_path) as cluster:
        await cluster.create("Persona", "pirate", {"instructions": "You are a pirate."})
        await cluster.until_state("Persona", "pirate", "applied")
        await owner.execute("""
            INSERT INTO users DEFAULT VALUES;
            INSERT INTO conversations (platform, platform_channel_id) VALUES ('test', 'dm');
            INSERT INTO turns (conversation_id, user_id, persona_id) SELECT 1, 1, id FROM personas;
        """)
        await cluster.delete("Persona", "pirate")
        status = await cluster.until_state("Persona", "pirate", "refused")
        assert status["message"].startswith("the persona pirate has answered turns")

        await cluster.change("Persona", "pirate", metadata={"annotations": {"parley.chat/resource-policy": "keep"}})
        await cluster.until("Persona", "pirate", lambda body: not body)
        assert await owner.fetchval("SELECT count(*) FROM personas") == 1


async def test_a_resource_that_names_another_row_lets_go_of_the_one_before(
    address: Address, owner: asyncpg.Connection, tmp_path: Path
) -> None:
    async with operating(address, tmp_path) as cluster:
        await cluster.create("Budget", "all", {"kind": "installation", "dollars": 10})
        await cluster.until_state("Budget", "all", "applied")
        await cluster.change("Budget", "all", spec={"period": "day", "dollars": 2.5})
        await cluster.until_state("Budget", "all", "applied", row="day installation - - - - - - -")

        rows = await owner.fetch("SELECT kind, period, cost_limit FROM budgets")
        assert [tuple(map(str, row)) for row in rows] == [("installation", "day", "2.50000000")]


async def test_without_a_cluster_the_operator_says_what_is_missing(address: Address, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="There is no cluster: set KUBECONFIG"):
        await types(address, tmp_path, "operator", HOME=str(tmp_path), KUBECONFIG="")
    with pytest.raises(ConfigurationError, match="No such file"):
        await types(address, tmp_path, "operator", KUBECONFIG=str(tmp_path / "config"))
