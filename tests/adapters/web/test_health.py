"""What machines ask: health, readiness, metrics; and what an unexpected error looks like from outside."""

import asyncio
import re
from collections import Counter
from typing import Any

import asyncpg
import httpx
import pytest
import yaml
from msgspec.structs import replace
from structlog.testing import capture_logs

from adapters.tables import update_tables
from adapters.web import serve
from adapters.web.health import read_metrics
from agent.queue.maintenance.steps import Steps
from agent.queue.maintenance.totals import count_finished, store_events
from shared.db.database import Database
from shared.errors import ConfigurationError
from shared.settings import Settings
from tests.adapters.web.conftest import TOKEN, Site, open_site
from tests.standins.openai_api import Answer
from tests.support.eventually import eventually
from tests.support.parley import Parley
from tests.support.planning import call, plan
from tests.support.source_tree import ROOT
from tests.support.summaries import remembered


async def test_health_needs_no_token(site: Site) -> None:
    del site.client.headers["Authorization"]

    assert (await site.client.get("/healthz")).json() == {"status": "ok"}
    await until_ready(site)
    assert (await site.client.get("/readyz")).json() == {"status": "ready", "workers": 1}


async def until_ready(site: Site) -> None:
    """Wait until the worker has connected."""

    async def is_ready() -> bool:
        answer = await site.client.get("/readyz?workers=1")
        assert answer.status_code == 200 or "parley worker" in answer.text
        return answer.status_code == 200

    await eventually(is_ready)


async def test_a_door_without_a_worker_takes_messages_and_says_that_nobody_answers_them(site: Site) -> None:
    await until_ready(site)
    assert site.parley.worker is not None
    site.parley.worker.cancel()
    await asyncio.gather(site.parley.worker, return_exceptions=True)

    answer = await site.client.get("/readyz")

    assert (answer.status_code, answer.json()["workers"]) == (200, 0)
    assert "messages are stored, and wait for one. Start one: parley worker" in answer.json()["message"]
    # A monitor may ask for workers.
    answer = await site.client.get("/readyz?workers=1")
    assert answer.status_code == 503
    assert "parley worker" in answer.json()["error"]["message"]


async def test_a_monitor_may_ask_for_more_workers_than_there_are(site: Site) -> None:
    await until_ready(site)

    answer = await site.client.get("/readyz?workers=2")

    assert answer.status_code == 503
    assert "Only 1 of the 2 workers" in answer.json()["error"]["message"]


async def test_a_number_of_workers_that_is_none_asks_for_none(site: Site) -> None:
    await until_ready(site)

    for least in ("no", "-1", "9" * 30, "²", "", "1.5"):
        assert (await site.client.get("/readyz", params={"workers": least})).status_code == 200, least


async def test_a_worker_that_can_take_no_turn_does_not_count(site: Site, owner: asyncpg.Connection) -> None:
    await until_ready(site)
    with capture_logs() as lines:
        await owner.execute("ALTER FUNCTION parley_take_jobs RENAME TO away")

        async def look() -> httpx.Response | None:
            answer = await site.client.get("/readyz")
            return answer if sum(line["event"] == "worker_restarting" for line in lines) > 2 else None

        answer = await eventually(look)
    assert (answer.json()["workers"], "worker_restarting" in answer.text) == (0, True)
    await owner.execute("ALTER FUNCTION away RENAME TO parley_take_jobs")

    await until_ready(site)
    assert (await site.posts("hello")).json()["content"] == "You said: hello"


@pytest.mark.parametrize("hours", [1, -1], ids=["back", "forward"])
async def test_a_worker_counts_as_live_although_the_clock_was_set(site: Site, hours: int) -> None:
    await until_ready(site)
    moved = "UPDATE workers SET last_heartbeat = last_heartbeat + make_interval(hours => :hours)"
    await site.parley.sql(moved, hours=hours)

    assert (await site.client.get("/readyz")).json()["workers"] == 1


async def test_a_worker_that_died_before_the_clock_was_set_back_does_not_count(site: Site) -> None:
    await until_ready(site)
    assert site.parley.worker is not None
    site.parley.worker.cancel()
    await asyncio.gather(site.parley.worker, return_exceptions=True)
    await site.parley.sql("INSERT INTO workers (last_heartbeat) VALUES (now() + interval '1 hour')")

    assert (await site.client.get("/readyz")).json()["workers"] == 0


async def test_compatible_tables_of_a_newer_release_are_ready(
    site: Site, parley: Parley, owner: asyncpg.Connection
) -> None:
    await owner.execute("UPDATE alembic_version SET version_num = '9998'")
    await until_ready(site)

    await owner.execute("UPDATE schema_compatibility SET oldest_revision = '9997'")
    answer = await site.client.get("/readyz")
    assert answer.status_code == 503
    assert "works with programs from revision 9997 on" in answer.json()["error"]["message"]
    with pytest.raises(ConfigurationError, match="install the newer release"):
        await update_tables(parley.app.database.address)


async def test_old_tables_are_not_ready(site: Site, owner: asyncpg.Connection) -> None:
    await owner.execute("DELETE FROM alembic_version")

    answer = await site.client.get("/readyz")

    assert answer.status_code == 503
    assert "run: parley migrate" in answer.json()["error"]["message"]
    assert (await site.client.get("/healthz")).status_code == 200


async def test_metrics_count_turns_tokens_and_what_waits(site: Site) -> None:
    await site.posts("hello")
    await site.posts("hello again")

    text = (await site.client.get("/metrics")).text

    assert 'parley_turns_total{status="answered"} 2.0' in text
    assert 'parley_model_calls_total{model="openai/stub",purpose="answer"} 2.0' in text
    assert re.search(r'parley_tokens_total\{kind="input",model="openai/stub",purpose="answer"\} [1-9]', text)
    assert "parley_inbox_waiting 0.0" in text
    assert "parley_inbox_oldest_seconds 0.0" in text
    assert 'parley_outbox_open{adapter="fake"} 0.0' in text
    assert "process_resident_memory_bytes" in text


async def test_metrics_tell_how_many_replies_wait_for_each_adapter_and_how_long(site: Site) -> None:
    await site.parley.sql(
        "INSERT INTO outbox (adapter, platform, platform_channel_id, place_key, content, created_at)"
        " SELECT adapter, 'test', 'c', adapter || number, 'hello', now() - number * interval '1 minute'"
        " FROM unnest(ARRAY['slack', 'discord']) AS adapter, generate_series(1, 5) AS number"
        " WHERE adapter = 'slack' OR number < 3"
    )

    text = (await site.client.get("/metrics")).text

    values = dict(re.findall(r"^(parley_outbox_\S+) (\S+)$", text, re.MULTILINE))
    assert {name: float(value) for name, value in values.items() if "open" in name} == {
        'parley_outbox_open{adapter="discord"}': 2.0,
        'parley_outbox_open{adapter="fake"}': 0.0,
        'parley_outbox_open{adapter="slack"}': 5.0,
    }
    assert 300 <= float(values['parley_outbox_oldest_seconds{adapter="slack"}']) < 360
    assert 120 <= float(values['parley_outbox_oldest_seconds{adapter="discord"}']) < 180


async def test_metrics_tell_how_long_tools_take_and_what_goes_wrong(site: Site, parley: Parley) -> None:
    listing = [("file_manager__list_files", {}), ("file_manager__read_document", {"file_id": 1})]
    parley.model.play([Answer(tool_calls=listing), "Done.", "Hello."])
    await site.posts("list my files")
    happened = [("fallback", "big", "small"), ("fallback", "big", "small"), ("route_failure", "big", "empty")]
    await store_events(parley.app.database, lambda: Counter(happened), Counter())
    await parley.sql("UPDATE users SET token_budget_monthly = 0")
    await site.posts("hello")
    # What is remembered of the turns counts as well, a moment later.
    memories = await remembered(parley)

    before = (await site.client.get("/metrics")).text.splitlines()
    # As if all of this were old enough to be counted.
    await parley.sql(
        "WITH hour AS (SELECT interval '1 hour' AS hour),"
        " calls AS (UPDATE token_logs SET created_at = created_at - hour FROM hour),"
        " steps AS (UPDATE messages SET created_at = created_at - hour FROM hour)"
        " UPDATE turns SET started_at = started_at - hour, finished_at = finished_at - hour FROM hour"
    )
    await count_finished(Steps(parley.app.database, parley.app.clock))
    after = (await site.client.get("/metrics")).text.splitlines()

    assert await parley.value("SELECT count(*) FROM tool_totals") == 2
    counted = [line for line in before if line.startswith("parley_") and not line.startswith("parley_turn_seconds")]
    assert [line for line in counted if line not in after and "_seconds_sum" not in line] == []
    for line in (
        "parley_worker_ready 1.0",
        "parley_workers 1.0",
        'parley_tool_seconds_count{outcome="result",tool="file_manager.list_files"} 1.0',
        'parley_tool_seconds_bucket{le="+Inf",outcome="failed",tool="file_manager.read_document"} 1.0',
        'parley_turn_errors_total{error="budget_exhausted"} 1.0',
        'parley_budget_refusals_total{error="budget_exhausted"} 1.0',
        'parley_fallbacks_total{answered="small",model="big"} 2.0',
        'parley_route_failures_total{cause="empty",model="big"} 1.0',
        'parley_model_calls_unpriced_total{model="openai/stub",purpose="answer"} 2.0',
        f"parley_memories {float(len(memories))}",
    ):
        assert line in before
    # The price of the stand-in is unknown: that is not 0.
    assert not any(line.startswith("parley_cost_usd_total{") for line in before)


async def test_the_dashboard_and_the_alerts_name_metrics_that_there_are(site: Site) -> None:
    text = (await site.client.get("/metrics")).text
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
    suffixes = {"summary": ("_sum", "_count"), "histogram": ("_sum", "_count", "_bucket")}
    metrics = {"up", *(name + suffix for name, kind in kinds.items() for suffix in suffixes.get(kind, ("",)))}
    rules = [rule for group in monitoring("alerts.yml")["groups"] for rule in group["rules"]]
    panels = [panel for panel in monitoring("grafana.json")["panels"] if panel["type"] != "row"]

    for rule in rules:
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
        assert set(rule["annotations"]) == {"summary", "remedy"}
    for expression in [rule["expr"] for rule in rules] + [
        target["expr"] for panel in panels for target in panel["targets"]
    ]:
        names = set(re.findall(r"\b(?:parley|process)_\w+|\bup\b", expression))
        assert names, expression
        assert names <= metrics, expression
        assert expression.count("(") == expression.count(")"), expression
    expressions = " ".join(target["expr"] for panel in panels for target in panel["targets"])
    assert {name for name in kinds if name.startswith("parley_") and name not in expressions} == set()


def monitoring(name: str) -> Any:
    # JSON is YAML, too.
    return yaml.safe_load((ROOT / "docs" / "monitoring" / name).read_text("utf-8"))


async def test_metrics_count_the_memories_without_vectors(parley: Parley, owner: asyncpg.Connection) -> None:
    app = parley.app
    await owner.execute(
        "WITH someone AS (INSERT INTO users DEFAULT VALUES RETURNING id)"
        " INSERT INTO memories (user_id, content) SELECT id, 'Ann likes tea' FROM someone",
    )
    await app.memory.index_missing()
    settings = app.settings.model_copy(update={"embedding_model": "openai/small"})

    metrics = await read_metrics(replace(app, settings=settings))
    values = {metric.name: metric.samples[0].value for metric in metrics if metric.samples}

    assert values["parley_memories"] == 1
    assert values["parley_memories_without_vectors"] == 1
    assert values["parley_memory_vectors_ratio"] == 0


async def test_metrics_compare_the_modes(site: Site, parley: Parley) -> None:
    listing = call("file_manager.list_files")
    parley.model.play(["Hello.", plan(listing), plan(response="No files."), "{", "{"])
    await site.posts("hello")
    await parley.sql("UPDATE users SET token_budget_monthly = NULL")
    await parley.sql(
        "INSERT INTO personas (name, system_prompt, loop_mode, is_default) VALUES ('p', 'Plan.', 'planner', true)"
    )
    await site.posts("list my files")
    await site.posts("hello again")

    text = (await site.client.get("/metrics")).text

    for line in (
        'parley_turn_waves_sum{mode="native",outcome="finished"} 0.0',
        'parley_turn_waves_sum{mode="planner",outcome="finished"} 1.0',
        'parley_turn_model_calls_sum{mode="native",outcome="finished"} 1.0',
        'parley_turn_model_calls_sum{mode="planner",outcome="finished"} 2.0',
        'parley_turn_model_calls_sum{mode="planner",outcome="failed"} 2.0',
        'parley_turn_seconds_count{mode="planner",outcome="failed"} 1.0',
        'parley_turns_total{status="answered"} 2.0',
        'parley_turns_total{status="failed"} 1.0',
    ):
        assert line in text.splitlines()
    assert re.search(r'parley_turn_seconds_sum\{mode="planner",outcome="finished"\} \d+\.\d', text)


class BrokenDatabase(Database):
    """A database that fails in a way that nobody expects."""

    def statement(self) -> Any:
        """Fail, with a secret in the text."""
        raise RuntimeError("the password is hunter2")


async def test_an_unexpected_error_is_one_fixed_sentence_with_an_id(parley: Parley) -> None:
    async with open_site(parley, replace(parley.app, database=BrokenDatabase(parley.app.database.address))) as site:
        answer = await site.posts("hello")

    assert answer.status_code == 500
    error = answer.json()["error"]
    assert error["code"] == "internal_error"
    match = re.fullmatch(r"Something went wrong on our side; .* \(([0-9a-f]{8})\)", error["message"])
    assert match
    assert "hunter2" not in answer.text
    assert "Traceback" not in answer.text


async def test_a_port_that_is_taken_stops_the_start_with_one_line(site: Site, settings: Settings) -> None:
    port = int(site.url.rpartition(":")[2])
    app = replace(site.parley.app, settings=settings.model_copy(update={"port": port}))

    with pytest.raises(ConfigurationError, match=f"can't listen on 127.0.0.1:{port} .*; set PORT to a free one"):
        await serve(app)


async def test_answers_do_not_name_the_server(site: Site) -> None:
    assert site.parley.app.secrets.api_token == TOKEN
    assert "server" not in (await site.client.get("/healthz")).headers
