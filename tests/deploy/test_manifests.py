"""`parley export` and `parley apply`: rows as manifests, and manifests as rows."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from typing import Any

import asyncpg
import jsonschema  # type: ignore[import-untyped]  # it ships no types
import kubernetes_validate
import pytest
import yaml

from adapters.kubernetes.manifests import SPECS, read_manifest
from shared.db.database import Address
from shared.db.hosts import URL
from shared.errors import Refusal
from tests.conftest import new_database
from tests.support.connections import connected
from tests.support.documents import document
from tests.support.forks import get_command
from tests.support.source_tree import ROOT

EXAMPLES = [
    pytest.param(example, id=f"{example['kind']}-{example['metadata']['name']}")
    for block in document("docs/operator.md").blocks("yaml")
    for example in yaml.safe_load_all(block.text)
]
WHOLE = "---\n".join(block.text for block in document("docs/operator.md").blocks("yaml"))
DEFINITIONS = {
    (definition := yaml.safe_load(path.read_text("utf-8")))["spec"]["names"]["kind"]: definition
    for path in sorted((ROOT / "deploy/helm/parley/crds").glob("*.yaml"))
}
PIRATE = {
    "apiVersion": "parley.chat/v1alpha1",
    "kind": "Persona",
    "metadata": {"name": "pirate"},
    "spec": {"instructions": "You are a pirate.\nSay arr.", "model": "openai/small"},
}
# What no manifest of docs/operator.md says.
ROWS = """
INSERT INTO personas (name, system_prompt, is_default, max_temperature, max_tokens_per_request, loop_mode, skills,
                      allow_mentions, suggestions)
VALUES ('Sage & Co', E'  Indented.\\n\\ttabbed: "quoted" #no comment\\n', true, 0.7, 500, 'planner', '["notes"]', true,
        '["What is new?"]');
INSERT INTO personas (name, system_prompt) VALUES ('sage-co', 'Of nearly the same name.'), ('yes', 'null');
INSERT INTO agents (name, description, persona_id, peers) SELECT 'sage', 'Knows.', id, '["researcher"]' FROM personas
WHERE name = 'sage-co';
INSERT INTO agents (name, description, url, headers, is_enabled)
VALUES ('far_away', 'Far.', 'https://far.example.org', '{"Authorization": "Bearer ${A2A_FAR}"}', false);
INSERT INTO mcp_servers (name, transport, command, args, env, timeout_seconds)
VALUES ('web_search', 'stdio', '/usr/bin/search', '["--depth", "3"]', '{"KEY": "${MCP_KEY}"}', 2.5);
SELECT admin.set_module('code_executor', is_enabled => false, permission => 'admin');
SELECT admin.set_limit('server', tokens => 9000, dollars => 2.5, period => 'day', platform => 'slack', server => 'T1');
SELECT admin.set_limit('channel', tokens => 0, platform => 'discord', channel => '12');
SELECT admin.set_limit('permission', dollars => 0.00000001, permission => 'guest');
SELECT admin.set_limit('installation', tokens => 5000000000);
"""


@dataclass
class Installation:
    """A database, and the commands of its admin."""

    address: Address
    home: Path
    owner: asyncpg.Connection

    async def parley(self, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
        """Run a command; return its exit code, and what it wrote to stdout and stderr."""
        process = await asyncio.create_subprocess_exec(
            *(*get_command(), *arguments),
            env={
                "PATH": "/usr/bin:/bin",
                "PYTHONPATH": str(ROOT),
                "PARLEY_HOME": str(self.home),
                "DATABASE_URL": self.address.libpq(as_owner=True),
            },
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
        )
        output, errors = await process.communicate(stdin.encode())
        return process.returncode or 0, output.decode(), errors.decode()

    async def apply(self, *documents: dict[str, Any], options: tuple[str, ...] = ()) -> tuple[int, str, str]:
        """Apply documents from a file."""
        file = self.home / "manifests.yaml"
        file.write_text(yaml.safe_dump_all(documents), "utf-8")
        return await self.parley("apply", str(file), *options)

    async def count_changes(self) -> int:
        """Return how many entries the log of changes has."""
        return int(await self.owner.fetchval("SELECT count(*) FROM audit_log"))


@asynccontextmanager
async def installed(postgres: URL, home: Path) -> AsyncIterator[Installation]:
    """Make an installation without any rows for the block."""
    async with new_database(postgres) as address, connected(address) as owner:
        yield Installation(address, home, owner)


@pytest.fixture
async def installation(postgres: URL, tmp_path: Path) -> AsyncIterator[Installation]:
    async with installed(postgres, tmp_path) as installation:
        yield installation


def with_spec(resource: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {**resource, "spec": {**resource["spec"], **spec}}


def limit(**spec: Any) -> dict[str, Any]:
    return {**PIRATE, "kind": "Budget", "metadata": {"name": "pirates"}, "spec": {"kind": "persona", **spec}}


async def test_what_is_exported_makes_the_same_rows_elsewhere_to_the_byte(
    installation: Installation, postgres: URL, tmp_path: Path
) -> None:
    await installation.parley("apply", "-", stdin=WHOLE)
    await installation.owner.execute(ROWS)
    code, exported, errors = await installation.parley("export", "--kubernetes")
    assert (code, errors) == (0, "")
    assert {kind: exported.count(f"kind: {kind}\n") for kind in SPECS} == {
        "Module": 2, "McpServer": 2, "Persona": 4, "Agent": 4, "Budget": 5,
    }  # fmt: skip

    async with installed(postgres, tmp_path) as other:
        code, plan, errors = await other.parley("apply", "-", stdin=exported)
        assert (code, errors) == (0, ""), plan
        assert await other.parley("export", "--kubernetes") == (0, exported, "")
        # The rows themselves, but for their numbers and times.
        for table in ("modules", "personas", "mcp_servers", "budgets"):
            query = (
                f"SELECT to_jsonb(t) - '{{id,persona_id,created_at,resets_at}}'::text[] FROM {table} AS t ORDER BY 1"  # noqa: S608
            )
            assert await other.owner.fetch(query) == await installation.owner.fetch(query)
    assert (await installation.parley("apply", "-", "--dry-run", stdin=exported))[0] == 0


async def test_a_module_is_as_its_manifest_says_and_as_before_without_it(installation: Installation) -> None:
    module = {**PIRATE, "kind": "Module", "metadata": {"name": "research"}, "spec": {"permission": "user"}}
    assert (await installation.apply(module))[1].startswith("+ Module/research\n")
    code, plan, _ = await installation.apply(with_spec(module, enabled=False))
    assert (code, plan.splitlines()[:2]) == (0, ["~ Module/research", "    enabled: unset -> false"])
    code, _, errors = await installation.apply({**module, "spec": {"enabled": True}})
    assert code == 1
    assert "Module/research: spec: Value error, it says what holds without it" in errors
    assert (await installation.apply(PIRATE, options=("--prune",)))[1].splitlines()[1] == "- Module/research"
    assert await installation.owner.fetch("SELECT name FROM modules") == []


async def test_a_row_that_says_what_holds_without_it_is_no_resource(installation: Installation) -> None:
    # As by an admin who writes the table, or undoes one of several changes.
    await installation.owner.execute("SELECT admin.set_module('research', is_enabled => false)")
    await installation.owner.execute("UPDATE modules SET is_enabled = true")
    # What people allow themselves is theirs alone.
    await installation.owner.execute("INSERT INTO users DEFAULT VALUES")
    await installation.owner.execute("SELECT parley_set_own_limit(id, 500) FROM users")

    assert await installation.parley("export", "--kubernetes") == (0, "", "")
    module = {**PIRATE, "kind": "Module", "metadata": {"name": "research"}, "spec": {"permission": "user"}}
    assert (await installation.apply(module))[1].startswith("+ Module/research\n")
    assert await installation.owner.fetchval("SELECT required_permission FROM modules") == "user"


async def test_a_dry_run_says_what_would_change_and_changes_nothing(installation: Installation) -> None:
    code, plan, _ = await installation.apply(PIRATE, limit(persona="pirate", tokens=10), options=("--dry-run",))
    assert (code, plan) == (
        4, "+ Persona/pirate\n+ Budget/pirates\n2 to add, 0 to change, 0 to remove, 0 unchanged\n",
    )  # fmt: skip
    assert await installation.count_changes() == 0

    assert (await installation.apply(PIRATE, limit(persona="pirate", tokens=10)))[0] == 0
    changed = with_spec(PIRATE, instructions="You are a pirate.\nSay ahoy.", model=None, steps=3)
    before = await installation.count_changes()
    code, plan, _ = await installation.apply(changed, limit(persona="pirate", tokens=20), options=("--dry-run",))
    assert code == 4
    assert plan.splitlines() == [
        "~ Persona/pirate",
        "    instructions:",
        "      @@ -1,2 +1,2 @@",
        "       You are a pirate.",
        "      -Say arr.",
        "      +Say ahoy.",
        '    model: "openai/small" -> unset',
        "    steps: unset -> 3",
        "~ Budget/pirates",
        "    tokens: 10 -> 20",
        "0 to add, 2 to change, 0 to remove, 0 unchanged",
    ]
    assert await installation.count_changes() == before
    code, plan, _ = await installation.apply(PIRATE, options=("--dry-run", "--json"))
    assert (code, [step["change"] for step in json.loads(plan)]) == (0, ["same"])


async def test_a_change_by_sql_is_shown_as_drift_and_a_change_of_apply_is_undone_as_any_other(
    installation: Installation,
) -> None:
    await installation.apply(PIRATE)
    await installation.apply(with_spec(PIRATE, model="openai/large"))
    entry = await installation.owner.fetchrow(
        "SELECT max(id) AS id, count(*) AS entries, min(actor) AS actor FROM audit_log"
    )
    assert entry["entries"] == 2
    assert entry["actor"].startswith("apply:")
    assert (await installation.parley("audit", "undo", str(entry["id"])))[0] == 0
    assert await installation.owner.fetchval("SELECT default_model FROM personas") == "openai/small"
    assert await installation.owner.fetchval("SELECT max(version) FROM persona_versions") == 3

    await installation.owner.execute("UPDATE personas SET max_iterations = 7")
    code, plan, _ = await installation.apply(PIRATE, options=("--dry-run",))
    first, second, _ = plan.splitlines()
    assert code == 4
    assert first.startswith("~ Persona/pirate (changed by postgres at 20")
    assert second == "    steps: 7 -> unset"


async def test_nothing_is_changed_when_one_of_them_is_refused_and_each_refusal_is_told(
    installation: Installation,
) -> None:
    agent = {
        **PIRATE,
        "kind": "Agent",
        "metadata": {"name": "scout"},
        "spec": {"description": "Finds.", "persona": "who"},
    }
    code, plan, errors = await installation.apply(
        PIRATE, limit(persona="pirate", tokens=10), agent, limit(persona="nobody")
    )
    file = installation.home / "manifests.yaml"
    assert (code, errors) == (1, "parley: 2 refused; nothing is changed\n")
    assert f"! Agent/scout [{file}]: there is no persona 'who'; there are: pirate\n" in plan
    assert f"! Budget/pirates [{file}]: there is no persona 'nobody'; there are: pirate\n" in plan
    assert await installation.count_changes() == 0

    (installation.home / "folder").mkdir()
    (installation.home / "folder/right.yaml").write_text(yaml.safe_dump(PIRATE))
    wrong = with_spec(PIRATE, steps=0, server=4711, prompt="")
    (installation.home / "folder/wrong.yml").write_text(f"{yaml.safe_dump(wrong)}---\nkind: [\n")
    (installation.home / "folder/other.yaml").write_text("kind: ConfigMap\napiVersion: v1\n")
    code, _, errors = await installation.parley("apply", str(installation.home / "folder"))
    assert code == 1
    assert "other.yaml: v1 ConfigMap is no resource of Parley's" in errors
    assert "wrong.yml: line 15: expected the node content" in errors
    assert errors.endswith("parley: nothing is changed\n")
    (installation.home / "folder/wrong.yml").write_text(yaml.safe_dump(wrong))
    code, _, errors = await installation.parley("apply", str(installation.home / "folder"))
    assert "wrong.yml: Persona/pirate: spec.steps: Input should be greater than or equal to 1; " in errors
    assert "spec.server: Input should be a valid string; put it in quotes; spec.prompt: Extra inputs" in errors
    assert await installation.count_changes() == 0


async def test_what_was_applied_and_is_not_there_any_more_is_removed_with_prune_alone(
    installation: Installation,
) -> None:
    await installation.owner.execute("SELECT admin.define_persona('by-hand', 'You are made by hand.')")
    agent = {
        **PIRATE, "kind": "Agent", "metadata": {"name": "scout"}, "spec": {"description": "A.", "instructions": "Do."},
    }  # fmt: skip
    await installation.apply(PIRATE, agent, limit(persona="pirate", tokens=10))
    assert (await installation.apply(PIRATE))[1] == "= Persona/pirate\n0 added, 0 changed, 0 removed, 1 unchanged\n"

    code, plan, _ = await installation.apply(PIRATE, options=("--prune",))
    assert (code, plan.splitlines()[:3]) == (
        0, ["= Persona/pirate", "- Budget/month-persona-pirate", "- Agent/scout"],
    )  # fmt: skip
    names = await installation.owner.fetch("SELECT name FROM personas ORDER BY name")
    # The agent's own persona has gone with it.
    assert [row["name"] for row in names] == ["by-hand", "pirate"]


async def test_an_export_leaves_secrets_out_and_says_so_and_apply_does_not_take_its_mark(
    installation: Installation,
) -> None:
    await installation.owner.execute(
        "SELECT admin.define_mcp_server('tickets', url => 'https://tickets.example.org', headers => $1)",
        json.dumps({"Authorization": "Bearer very-secret"}),
    )
    code, exported, errors = await installation.parley("export", "--kubernetes")
    assert (code, "very-secret" in exported) == (0, False)
    assert "McpServer/tickets: a secret is left out of headers; name a variable there" in errors

    code, _, errors = await installation.parley("apply", "-", stdin=exported)
    assert code == 1
    assert "-: McpServer/tickets: [secret-removed] stands where an export has left out a secret" in errors


async def test_two_manifests_of_one_row_and_a_persona_of_an_agent_are_refused(installation: Installation) -> None:
    again = {**with_spec(PIRATE, name="pirate"), "metadata": {"name": "another"}}
    code, _, errors = await installation.apply(PIRATE, again)
    assert code == 1
    assert "Persona/pirate and" in errors
    assert "Persona/another say the same row (pirate)" in errors

    agent = {**PIRATE, "kind": "Agent", "spec": {"description": "Plunders.", "instructions": "You are a pirate."}}
    await installation.apply(agent)
    code, plan, _ = await installation.apply(PIRATE)
    assert code == 1
    assert "the persona pirate is an agent's own: change it by the Agent pirate" in plan


async def test_a_persona_that_has_become_more_than_its_agents_stays_when_the_agent_goes(
    installation: Installation,
) -> None:
    await installation.owner.execute("""
        SELECT admin.define_agent('scout', 'Finds things.', instructions => 'Find.');
        SELECT admin.define_agent('clerk', 'Counts things.', instructions => 'Count.');
        SELECT admin.set_default_persona('clerk');
        SELECT admin.delete_agent('scout');
        SELECT admin.delete_agent('clerk');
    """)

    names = await installation.owner.fetch("SELECT name FROM personas ORDER BY name")
    assert [row["name"] for row in names] == ["clerk"]


@pytest.mark.parametrize("kind", SPECS)
def test_kubernetes_takes_the_definitions(kind: str) -> None:
    for version in ("1.27", "1.37"):
        kubernetes_validate.validate(DEFINITIONS[kind], version, strict=True)


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_of_the_docs_are_what_the_definitions_and_the_models_say(example: dict[str, Any]) -> None:
    (version,) = DEFINITIONS[example["kind"]]["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    jsonschema.validate(example, schema)
    manifest = read_manifest(example)
    assert read_manifest(manifest.to_document()) == manifest

    wrong = with_spec(example, name=7)
    with pytest.raises(Refusal):
        read_manifest(wrong)
    if example["kind"] != "Budget":
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)
