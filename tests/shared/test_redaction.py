"""No secret is written to a log, in whatever format and by whatever way it comes there."""

import json
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.log import redact
from shared.redaction import MAX_CREDENTIALS, hide_credential, hide_settings, redact_text, redact_value

ROOT = Path(__file__).resolve().parents[2]
DISCORD = "MTA4NzY1NDMyMTA5ODc2NTQzMg.GabcDE.abcdefghijklmnopqrstuvwxyz0123456789AB"
# The text around a secret, and the secret: none of them opens anything.
FORMS = {
    "openai": ("Incorrect API key provided: {}.", "sk-proj-abcdefGHIJKL1234567890"),
    "anthropic": ("no such key {}", "sk-ant-api03-abcdefghij_klmnop-qrst"),
    "groq": ("{}", "gsk_abcdefghijklmnopqrstuvwxyz123456"),
    "slack bot": ("token {} is revoked", "xoxb-1234567890-abcdefghijkl"),
    "slack app": ("{}", "xapp-1-A012345-0123456789-abcdef"),
    "discord": ("Improper token: {}", DISCORD),
    "webhook": ("POST https://discord.com/api/webhooks/{}", "108765432109876543/abcdefghij-klmnopqrst_uvwxyz"),
    "bearer": ("headers: [('authorization', 'Bearer {}')]", "abc.def-ghi"),
    "basic": ("Authorization: Basic {}", "dXNlcjpwYXNzd29yZA=="),
    "database": ("could not connect to postgresql://parley:{}@db.example.org:5432/parley", "hunter2secret"),
    "raw at": ("redis://:{}@db/0", "pass@word"),
    "environment": ("OPENAI_API_KEY={}", "0123456789"),
    "conninfo": ("host=db user=parley password={} dbname=parley", "hunter2secret"),
    "quoted": ("{{'password': '{}', 'port': 5432}}", "correct horse battery"),
    "json": ('{{"api_key": "{}", "n": 1}}', "correct horse, battery"),
    "json in json": ('{{"body": "{{\\"client_secret\\": \\"{}\\"}}"}}', "hunter2secret"),
    "link": ("https://files.example.org/a?x=1&X-Amz-Signature={}&y=2", "0123456789abcdef"),
    "github": ("{}", "ghp_abcdefghijklmnopqrstuvwxyz0123456789"),
    "jwt": ("cookie {}", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abcdefghijk"),
    "pem": ("{}", "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\nabcdef="),
}
PLAIN = (
    "turn 4711 of user 12 took 1.25 s: 300 tokens in, 22 out, tools calendar.resolve_date_hint",
    "GET http://127.0.0.1:8080/v1/messages?limit=5 -> 200 (task-12345678, basic authentication is off)",
    "connection to server at 10.0.0.1, port 5432 failed: password authentication failed for user parley",
    'File "/srv/parley/agent/turn/run.py", line 12, in run_turn',
    "max_tokens=500 budget_tokens: 3",
)


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_of_each_form_is_replaced_and_the_rest_stays(form: str) -> None:
    around, secret = FORMS[form]

    redacted = redact_text(around.format(secret))

    assert secret not in redacted
    assert "***" in redacted
    assert redact_text(redacted) == redacted


@pytest.mark.parametrize("text", PLAIN)
def test_an_ordinary_text_is_written_as_it_is(text: str) -> None:
    assert redact_text(text) == text


class Client:
    """An object of a library, which shows its key."""

    def __repr__(self) -> str:
        """Show it."""
        return f"Client({DISCORD})"


NESTS = st.recursive(
    st.sampled_from(sorted(FORMS)),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3),
        st.dictionaries(st.text(max_size=5), inner, min_size=1, max_size=3),
        st.tuples(inner, inner),
    ),
    max_leaves=8,
)


@given(NESTS)
def test_a_secret_is_found_at_any_depth(nest: Any) -> None:
    def fill(value: Any) -> Any:
        if isinstance(value, str):
            return FORMS[value][0].format(FORMS[value][1])
        return {key: fill(child) for key, child in value.items()} if isinstance(value, dict) else [*map(fill, value)]

    output = repr(redact_value({"nest": fill(nest)}))

    assert not [secret for _, secret in FORMS.values() if secret in output or repr(secret)[1:-1] in output]


@given(st.text(min_size=8, max_size=40), st.text(max_size=30), st.text(max_size=30))
def test_a_value_that_is_known_is_found_in_every_text(secret: str, before: str, after: str) -> None:
    hide_credential(secret)

    for form in (secret, repr(secret)[1:-1], json.dumps(secret)[1:-1]):
        assert form not in redact_text(f"{before}{form}{after}").replace("***", "")


def test_names_objects_keys_and_depths_are_seen_through() -> None:
    deep: Any = "x"
    for _ in range(5000):
        deep = [deep]

    redacted = redact(None, "", {"event": "e", "db": {"password": 12345, "port": 1}, "client": Client(), "deep": deep})

    assert redacted["db"] == {"password": "***", "port": 1}
    assert redacted["client"] == "Client(***)"
    assert "…" in str(redacted["deep"])
    assert DISCORD not in str(redact_value({DISCORD: 1, DISCORD.encode(): 1, (DISCORD, 1): 1}))
    assert redact_value({b"x-api-key": b"opaque", 7: 1}) == {"x-api-key": "***", "7": 1}


def test_many_credentials_do_not_push_out_the_settings() -> None:
    hide_settings(["setting-0815-secret"])
    for number in range(MAX_CREDENTIALS + 10):
        hide_credential(f"credential-{number}-secret")

    assert redact_text("setting-0815-secret") == "***"
    assert redact_text(f"credential-{MAX_CREDENTIALS}-secret") == "***"


def test_an_ordinary_line_costs_little() -> None:
    fields = dict(
        zip("abcdefghij", ["calendar.resolve_date_hint", "done", 1, 2, 0.5, *["openai/gpt-4o-mini"] * 5], strict=True)
    )
    line = {"event": "turn", "level": "info", "timestamp": "2026-11-24T18:28:15.123456Z", **fields}
    start = time.process_time()

    for _ in range(2000):
        redact(None, "", line)

    # A tenth of this where nothing else runs, however many credentials the tests before have left.
    assert (time.process_time() - start) / 2000 < 0.005


PROGRAM = """
import asyncio, logging, sys, threading, warnings
from shared.log import configure_logging, drop_handlers, get_logger
from shared.redaction import hide_settings

SECRETS = {secrets!r}
if {style!r} == "json":
    # Before it was said how.
    get_logger().info("begun")
configure_logging("INFO", {style!r}, is_late=True)
hide_settings([SECRETS[0]])
log, library = get_logger(), logging.getLogger("library.of.others")
library.addHandler(logging.StreamHandler())
drop_handlers("library.of.others")


def fail():
    local = SECRETS[1]
    try:
        try:
            raise KeyError(SECRETS[0])
        except KeyError as error:
            raise OSError(f"postgresql://u:{{SECRETS[2]}}@h/db") from error
    except OSError:
        raise ValueError(f"no key {{SECRETS[1]}}")


class Broken:
    def __del__(self):
        raise ValueError(SECRETS[1])


async def main():
    asyncio.get_running_loop().create_task(run()).add_done_callback(lambda task: None)
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(fail)
    await asyncio.sleep(0)


async def run():
    fail()


try:
    fail()
except ValueError as error:
    nested = {{"headers": [("authorization", SECRETS[1])], "password": SECRETS[2]}}
    log.error("failed", exc_info=True, fields=nested, error=error)
    library.exception("it failed: %s", error)
    group = ExceptionGroup("several", [error])
    error.add_note(SECRETS[1])
    log.exception("grouped", exc_info=group)
log.info(SECRETS[0], stack_info=True)
library.warning("headers %r", {{"Authorization": SECRETS[1]}})
library.error("not %d", SECRETS[1])
warnings.warn(f"old {{SECRETS[1]}}")
thread = threading.Thread(target=fail)
thread.start()
thread.join()
Broken()
asyncio.run(main())
fail()
"""


@pytest.mark.parametrize("style", ["console", "json"])
def test_a_program_that_fails_in_every_way_writes_no_secret_to_stderr(style: str) -> None:
    secrets = ("own'secret\"\\with-marks", FORMS["openai"][1], "hunter2secret")

    program = dedent(PROGRAM.format(style=style, secrets=secrets))
    process = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )

    assert process.returncode == 1
    output = process.stdout + process.stderr
    for secret in secrets:
        for form in (secret, repr(secret)[1:-1], json.dumps(secret)[1:-1]):
            assert form not in output
    for word in ("failed", "grouped", "several", "KeyError", "OSError", "ValueError", "UserWarning", "a log line of"):
        assert word in output
    assert output.count("uncaught_exception") == 2
    assert "ignored_exception" in output
    if style == "json":
        lines = [line for line in process.stderr.splitlines() if not line.startswith("a log line of")]
        assert all(isinstance(json.loads(line), dict) for line in lines)
