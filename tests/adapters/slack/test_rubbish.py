"""Signed requests of forms that Slack never sends are refused, and none of those that it sends."""

import itertools
import json
import time
from collections.abc import Iterator
from copy import deepcopy
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from shared.db.database import Address
from tests.adapters.slack.conftest import Scene
from tests.adapters.slack.test_transports import open_over_http
from tests.standins.openai_api import OpenAIStub
from tests.standins.slack.delivery import sign
from tests.standins.slack.journal import Envelope

RUBBISH: tuple[Any, ...] = (5, "x\x00y", [None], {"a": None}, "\ud800", True, None, [], {})
# Nothing is read of these, or it is text, or what Parley itself has put there.
UNREAD = frozenset({"blocks", "text", "token", "api_app_id", "context", "title", "submit", "close", "private_metadata"})
EVENTS = ("app_mention", "message", "app_home_opened", "assistant_thread_started")
SUBTYPES = ("file_share", "message_changed", "message_deleted")
FORMS = {*EVENTS, *SUBTYPES, "block_actions", "message_action", "view_submission", "slash_commands"}
Path = tuple[str | int, ...]


def name_form(envelope: Envelope) -> str:
    """Return which form a request has."""
    event = envelope.payload.get("event") or {}
    kinds = (event.get("subtype"), event.get("type"), envelope.payload.get("type"), envelope.kind)
    return next(str(kind) for kind in kinds if kind)


async def play_all(scene: Scene) -> None:
    """Let Ann do one of everything, so that the journal has a genuine request of each form."""
    ann, general = scene.ann, scene.general
    question = await ann.mentions(general, "hello", files=[("notes.txt", b"bikes are green")])
    await ann.hears(general)
    await ann.edits(general, question, "hello again")
    reply = await ann.posts(general, "and this", thread_ts=question["ts"])
    answer = ann.written(general)[0]
    await ann.presses(general, answer, "👍")
    await ann.slash(general, "/parley", "help")
    form = await (await ann.shortcut(general, question, "ask_parley")).view()
    await ann.submits(form, question="What is this?")
    await ann.deletes(general, reply)
    await ann.opens_home()
    await scene.slack.until(lambda: ann.home)
    await ann.opens_home()
    await ann.opens_assistant(general)
    await scene.slack.until(lambda: {name_form(envelope) for envelope in scene.slack.journal.envelopes} >= FORMS)


def list_paths(value: Any, path: Path = ()) -> Iterator[Path]:
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, node in inner:
        if key not in UNREAD:
            yield from list_paths(node, (*path, key))


def spoiled(value: Any, path: Path, rubbish: Any) -> Any:
    if not path:
        return rubbish
    copy = deepcopy(value)
    part = copy
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = rubbish
    return copy


def encode(kind: str, payload: Any, number: int) -> tuple[str, str]:
    """Return body and type of a request; no two are alike, so that none is taken for a replay."""
    if kind == "events_api":
        return json.dumps(payload) + " " * number, "application/json"
    parameters = {"payload": json.dumps(payload)} if kind == "interactive" else payload
    form = {**(parameters if isinstance(parameters, dict) else {"all": parameters}), "number": number}
    return urlencode(form, errors="surrogatepass"), "application/x-www-form-urlencoded"


async def test_rubbish_in_any_place_of_a_signed_request_is_refused_or_ignored(
    scene: Scene, address: Address, model: OpenAIStub, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = itertools.cycle(RUBBISH)
    answers: dict[tuple[str, Path, str], int] = {}
    async with open_over_http(scene, address, model) as url, httpx.AsyncClient() as client:
        urls = [url.replace("events", endpoint) for endpoint in ("interactions", "commands")]
        await scene.slack.deliver_to(url, interactions=urls[0], commands=urls[1])
        await play_all(scene)
        genuine = list(scene.slack.journal.envelopes)
        for name, envelope in {name_form(original): original for original in genuine}.items():
            for path, rubbish in zip([*list_paths(envelope.payload)] * 2, bad, strict=False):
                body, kind = encode(envelope.kind, spoiled(envelope.payload, path, rubbish), len(answers))
                now = str(int(time.time()))
                signature = sign(scene.slack.signing_secret, now, body.encode())
                headers = {"x-slack-request-timestamp": now, "x-slack-signature": signature, "content-type": kind}
                response = await client.post(
                    scene.slack.delivery.addresses[envelope.kind], content=body, headers=headers
                )
                answers[name, path, repr(rubbish)] = response.status_code

    assert {original.status for original in genuine} == {200}
    assert {key: status for key, status in answers.items() if status not in (200, 400, 404)} == {}
    assert list(answers.values()).count(400) > 100
    assert "Traceback" not in capsys.readouterr().out
