"""The card, the token, and what is sent that can not be taken."""

import json
import sys
from subprocess import run
from typing import Any

import httpx
import pytest
from a2a.types.a2a_pb2 import ListTasksRequest, Part, TaskPushNotificationConfig
from a2a.utils.errors import A2AError, InvalidParamsError
from msgspec.structs import replace

from shared.db.database import Address, Database
from shared.settings import Settings
from tests.adapters.a2a.callers import CARD, GENERATIONS, Peer, call, connected, message
from tests.adapters.web.conftest import Site, open_site
from tests.support.parley import Parley, open_parley


async def test_the_card_tells_anybody_how_to_ask(site: Site) -> None:
    async with httpx.AsyncClient(base_url=site.url) as stranger:
        answers = [await stranger.get(path) for path in (CARD, "/.well-known/agent.json")]

    card = answers[0].json()
    assert answers[1].json() == card
    assert card["name"] == "Parley"
    assert card["capabilities"]["streaming"] is True
    assert [(interface["url"], interface["protocolVersion"]) for interface in card["supportedInterfaces"]] == [
        (f"{site.url}/a2a", "1.0"),
        (f"{site.url}/a2a", "0.3"),
    ]
    assert (card["url"], card["protocolVersion"], card["preferredTransport"]) == (f"{site.url}/a2a", "0.3", "JSONRPC")
    assert card["securitySchemes"]["token"]["httpAuthSecurityScheme"]["scheme"] == "bearer"


async def test_the_card_names_the_public_address_and_the_persona(
    settings: Settings, address: Address, parley: Parley
) -> None:
    await parley.sql("INSERT INTO personas (name, system_prompt, platform) VALUES ('Sage', 'Secret words.', 'a2a')")
    public = settings.model_copy(update={"public_url": "https://chat.example.org/"})
    async with open_parley(public, address, parley.model, works=False) as second, open_site(second) as site:
        card = await site.client.get(CARD)

    assert card.json()["name"] == "Sage"
    assert card.json()["url"] == "https://chat.example.org/a2a"
    assert "Secret" not in card.text


async def test_a_request_without_the_token_is_refused(site: Site, subtests: pytest.Subtests) -> None:
    async with httpx.AsyncClient(base_url=site.url) as stranger:
        for token in (None, "Bearer wrong", "Basic x", "Bearer"):
            with subtests.test(token or "none"):
                headers = {"authorization": token} if token else {}
                body = call("message/send", {"message": message("hi")})
                answer = await stranger.post("/a2a", json=body, headers=headers)

                assert answer.status_code == 401
                assert "API_TOKEN" in answer.json()["error"]["message"]
    assert await site.parley.value("SELECT count(*) FROM inbox") == 0


WRONG_PARTS: list[tuple[list[str | Part], str]] = [
    ([" \n "], "neither text nor a file"),
    (["x" * 100_001], "more than 100,000 characters"),
    ([Part(url="file:///etc/passwd")], "http:// or https://"),
    ([Part(raw=b"x")] * 21, "more than 20 files"),
]


async def test_parts_that_can_not_be_taken_are_refused_with_the_reason(peer: Peer, subtests: pytest.Subtests) -> None:
    for parts, reason in WRONG_PARTS:
        with subtests.test(reason), pytest.raises(A2AError, match=reason):
            await peer.says(*parts)


DEEP: Any = "x"
for _ in range(40):
    DEEP = {"x": DEEP}


GARBAGE: list[tuple[str | bytes, int, Any]] = [
    ("no json", 200, -32700),
    ("", 200, -32700),
    (b"\xff", 200, -32700),
    ("7" * 5000, 200, -32700),
    (json.dumps(call("message/send", {})).encode("utf-16"), 200, -32700),
    ("[]", 200, -32600),
    ("7", 200, -32600),
    ("null", 200, -32600),
    (json.dumps([call("message/send", {})]), 200, -32600),
    (json.dumps({**call("message/send", {}), "jsonrpc": "1.0"}), 200, -32600),
    (json.dumps(call("message/explode", {})), 200, -32601),
    (json.dumps(call("", {})), 200, -32600),
    (json.dumps(call("message/send", {})), 200, -32600),
    (json.dumps(call("message/send", "x")), 200, -32600),
    (json.dumps(call("SendMessage", {"message": "x"})), 200, -32602),
    (json.dumps(call("SendMessage", {"message": {"parts": 7}})), 200, -32602),
    (json.dumps(call("SendMessage", None)), 200, -32602),
    (json.dumps(call("SendMessage", {})), 200, -32602),
    (json.dumps(call("message/send", DEEP)), 400, "invalid_json"),
    ("[" * 100_000, 400, "invalid_json"),
    (json.dumps(call("message/send", {"message": message("x" * 1_100_000)})), 413, "too_large"),
    (" " * 4_000_000, 413, "too_large"),
]


async def test_garbage_is_answered_with_an_honest_error(site: Site, subtests: pytest.Subtests) -> None:
    for body, status, code in GARBAGE:
        with subtests.test(str(body[:60])):
            version = "1.0" if isinstance(body, str) and "SendMessage" in body else "0.3"
            headers = {"content-type": "application/json", "a2a-version": version}
            answer = await site.client.post("/a2a", content=body, headers=headers)

            assert answer.status_code == status
            assert answer.json()["error"]["code"] == code
            assert "Traceback" not in answer.text
            assert "went wrong" not in answer.text
            assert len(answer.text) < 5000


async def test_a_call_of_version_1_has_to_name_its_version(site: Site) -> None:
    answer = await site.client.post("/a2a", json=call("SendMessage", {"message": message("hi")}))

    assert answer.json()["error"]["code"] == -32009
    assert "'0.3' is not supported by this" in answer.json()["error"]["message"]


async def test_the_body_has_to_be_json_by_its_type(site: Site) -> None:
    answer = await site.client.post("/a2a", content="{}", headers={"content-type": "text/plain"})

    assert answer.status_code == 415


async def test_what_is_not_offered_is_refused(peer: Peer, site: Site) -> None:
    config = TaskPushNotificationConfig(task_id="1", url="https://example.org/hook")
    with pytest.raises(A2AError, match="Push Notification is not supported"):
        await peer.client.create_task_push_notification_config(config)
    async with connected(site, "1.0") as newer:
        with pytest.raises(InvalidParamsError, match="Name the person"):
            await newer.client.list_tasks(ListTasksRequest())


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_a_bug_is_logged_and_not_shown_to_the_peer(
    generation: str, site: Site, capfd: pytest.CaptureFixture[str]
) -> None:
    broken = replace(site.parley.app, events=None)  # what breaks it
    async with open_site(site.parley, broken) as other, connected(other, generation, streams=False) as peer:
        with pytest.raises(A2AError, match="Something went wrong on our side") as result:
            await peer.says("hello")

    assert "NoneType" not in str(result.value)
    assert "NoneType" in "".join(capfd.readouterr())


async def test_a_database_that_is_away_is_said_in_one_sentence(
    site: Site, address: Address, subtests: pytest.Subtests
) -> None:
    away = Database(replace(address, url=address.url.with_parameters({"host": "/nowhere"})))
    async with open_site(site.parley, replace(site.parley.app, database=away)) as other:
        for method in ("message/send", "message/stream", "tasks/get", "tasks/cancel"):
            with subtests.test(method):
                params = {"message": message("hello")} if "message" in method else {"id": "1"}
                answer = await other.client.post("/a2a", json=call(method, params))
                error = json.loads(answer.text.removeprefix("data: "))["error"]
                assert (error["code"], "I lost my database" in error["message"]) == (-32603, True)
        card = await other.client.get(CARD)
    await away.close()

    assert (card.status_code, card.json()["error"]["code"]) == (503, "database_lost")


def test_the_sdk_is_imported_with_the_first_request() -> None:
    program = (
        "import sys\nimport adapters.cli.compose, adapters.web.app, agent.queue.worker\n"
        "sys.exit(' '.join({'a2a', 'google.protobuf', 'sse_starlette'} & set(sys.modules)) or None)"
    )

    process = run([sys.executable, "-c", program], capture_output=True, encoding="utf-8", check=False)

    assert process.stderr == ""
