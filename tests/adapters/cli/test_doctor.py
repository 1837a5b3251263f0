"""`parley doctor`: everything that has to be in order, with a remedy for what is not."""

import asyncio
import json
import re
from dataclasses import replace

from tests.adapters.cli.shell import Shell
from tests.standins.openai_api import OpenAIStub


def test_doctor_finds_everything_in_order_and_names_the_missing_model(shell: Shell) -> None:
    result = shell.run("doctor", "--json")

    assert result.code == 0
    levels = {load["subject"]: load["level"] for load in json.loads(result.out)}
    assert levels.pop("models") == "warn"
    assert [levels.pop(subject) for subject in ("tools", "voice", "backups")] == ["off"] * 3
    assert set(levels.values()) == {"ok"}
    subjects = {
        "settings",
        "space",
        "api_token",
        "database",
        "extension",
        "clock",
        "roles",
        "tables",
        "storage",
        "modules",
    }
    assert subjects <= set(levels)
    assert re.search(r"ok    modules   \d+ of \d+ tools are on", shell.says("doctor"))
    assert "offline answered" in shell.says("doctor", "--call")


def test_doctor_names_missing_keys_personas_that_need_what_is_not_there_and_servers_that_fail(shell: Shell) -> None:
    shell.says(
        "psql",
        "-c",
        """
        INSERT INTO personas (name, system_prompt, allowed_modules, default_model)
        VALUES ('Lost', 'Hi.', '["knowlege", "clock"]', 'nobody/knows');
        INSERT INTO mcp_servers (name, transport, command, last_error)
        VALUES ('clock', 'stdio', 'clock', 'no such file');
        INSERT INTO event_totals (kind, subject, detail, events) VALUES ('route_failure', 'small', 'key_refused', 1)
        """,
    )

    models = "gpt-4o-mini,anthropic/claude-opus-4-1,gpt-4o-mimi"
    result = replace(shell, is_loaded=True).run("doctor", "--call", LLM_MODELS=models)

    shell.says(
        "psql", "-c", "DELETE FROM personas WHERE name = 'Lost'; DELETE FROM mcp_servers; DELETE FROM event_totals"
    )
    assert result.code == 1
    for finding in (
        "fail  model     LLM_MODELS: gpt-4o-mini needs OPENAI_API_KEY, which is not set",
        "fail  model     LLM_MODELS: anthropic/claude-opus-4-1 needs ANTHROPIC_API_KEY, which is not set",
        "fail  model     the persona Lost: litellm knows no provider of nobody/knows; write provider/model",
        "fail  model     LLM_MODELS: litellm knows no provider of gpt-4o-mimi; write provider/model",
        "did you mean gpt-4o-mini",
        "warn  persona   Lost allows the module knowlege, which does not exist; did you mean knowledge?",
        "warn  remote    the MCP server clock can't be used: no such file",
        "fail  call      The key of anthropic/claude-opus-4-1 is refused (401 or 403). Correct its API key",
        " UTC: The key of small is refused (401 or 403). Correct its API key",
    ):
        assert finding in result.out
    assert "module clock" not in result.out
    # No line says that the same models are in order.
    assert not re.search(r"ok +models", result.out)


async def test_doctor_names_the_model_that_a_misspelled_one_may_be(shell: Shell) -> None:
    async with OpenAIStub(models=("small", "large")) as server:
        settings = {"OPENAI_BASE_URL": server.base_url, "ANTHROPIC_API_KEY": "x"}
        names = "openai/smal,small,anthropic/claude-sonet-4-5"
        run = replace(shell, is_loaded=True).run
        result = await asyncio.to_thread(run, "doctor", LLM_MODELS=names, **settings)
        exact_result = await asyncio.to_thread(shell.run, "doctor", LLM_MODELS="small", **settings)

    assert result.code == 1
    assert "fail  model     LLM_MODELS: the server does not offer openai/smal; did you mean small?" in result.out
    assert "ok    model     LLM_MODELS: small has all variables that its provider needs" in result.out
    warning = (
        "warn  model     LLM_MODELS: litellm does not list anthropic/claude-sonet-4-5; --call tries it; did you mean"
    )
    assert f"{warning} anthropic/claude-sonnet-4-5" in result.out
    assert exact_result.code == 0
    # No line says that the same models are in order.
    assert not re.search(r"ok +models", result.out + exact_result.out)


def test_doctor_names_files_that_are_not_as_they_were_stored(shell: Shell) -> None:
    shell.says(
        "psql",
        "--superuser",
        "-c",
        """
        WITH person AS (INSERT INTO users DEFAULT VALUES RETURNING id)
        INSERT INTO file_records (user_id, filename, minio_key, mime_type, status, sha256)
        SELECT id, 'a.txt', '9/lost/a.txt', 'text/plain', 'stored', repeat('a', 64) FROM person
        """,
    )

    result = shell.run("doctor")

    shell.says("psql", "--superuser", "-c", "DELETE FROM file_records WHERE minio_key = '9/lost/a.txt'")
    assert result.code == 1
    assert re.search(r"fail  contents  files that are not as they were stored: \d+ \(file_lost\)", result.out)


def test_without_landlock_doctor_fails_and_names_what_is_off_and_the_remedy(shell: Shell) -> None:
    result = replace(shell, has_landlock=False).run("doctor")

    assert result.code == 1
    (line,) = (line for line in result.out.splitlines() if line[6:].startswith("sandbox"))
    assert line.startswith("fail  sandbox   this system has no Landlock")
    assert "documents, images, recordings and data files are not opened" in line
    assert "Parley needs Linux 5.13 or newer with Landlock switched on; elsewhere, start it with" in line


def test_doctor_says_how_many_memories_have_vectors(shell: Shell) -> None:
    result = shell.run("doctor", EMBEDDING_MODEL="local")

    assert re.search(r"ok    vectors   \d+ of \d+ memories have vectors of local/use-multilingual-3", result.out)
    assert "ok    recall    by meaning (local model)" in result.out


def test_doctor_says_how_many_replies_wait_for_a_platform_how_long_and_why(shell: Shell) -> None:
    shell.says(
        "psql",
        "-c",
        """
        INSERT INTO outbox (adapter, platform, platform_channel_id, place_key, content, created_at, error)
        SELECT 'slack', 'slack', 'c', 'c' || number, 'hi', now() - number * interval '10 minutes',
               CASE WHEN number > 1 THEN 'Slack answers 503.' END
        FROM generate_series(1, 3) AS number;
        INSERT INTO outbox (adapter, platform, platform_channel_id, place_key, content)
        VALUES ('discord', 'discord', 'c', 'd', 'hi')
        """,
    )

    result = shell.run("doctor")

    shell.says("psql", "-c", "DELETE FROM outbox")
    assert re.search(
        r"warn  replies   3 wait for slack, the oldest for 0:30:\d\d: Slack answers 503; they are sent", result.out
    )
    assert re.search(r"ok    replies   1 waits for discord, the oldest for 0:00:\d\d$", result.out, re.MULTILINE)
    assert result.code == 0


def test_doctor_says_what_to_do(shell: Shell) -> None:
    token = shell.home / "api_token"
    token.write_text("secret")
    token.chmod(0o644)

    assert f"run: chmod 600 {token}" in shell.says("doctor")
    for settings, finding in (
        ({"DATABASE_URL": "postgresql://a:b@127.0.0.1:1/c"}, "fail  database  DATABASE_URL: no Postgres answers"),
        (
            {"S3_ENDPOINT": "127.0.0.1:1", "S3_ACCESS_KEY": "a", "S3_SECRET_KEY": "b", "S3_SECURE": "false"},
            "fail  storage",
        ),
        ({"PORT": "x"}, "fail  settings  PORT is wrong"),
    ):
        result = shell.run("doctor", **settings)
        assert finding in result.out
        assert result.code == 1
    token.unlink()


def test_doctor_names_agents_that_answer_by_a_script(shell: Shell) -> None:
    script = """'{"DEBUG_MOCK_RESPONSES": "[\\"Twelve.\\"]"}'"""
    define = f"SELECT admin.define_agent('clerk', 'Counts.', instructions => 'Count.', env => {script})"
    shell.says("psql", "-c", define)

    result = shell.run("doctor")

    shell.says("psql", "-c", "SELECT admin.delete_agent('clerk')")
    assert "the agent clerk answers by a script, not by a model" in result.out
