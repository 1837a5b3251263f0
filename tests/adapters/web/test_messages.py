"""`POST /v1/messages` and the events of a conversation."""

import asyncio
import base64
import json
from itertools import product
from typing import Any

import httpx
import pytest

from shared.db.database import Address
from shared.settings import Settings
from tests.adapters.web.conftest import NO_CERTIFICATES, Site, open_site
from tests.standins.openai_api import Answer
from tests.support.parley import open_parley
from tests.support.planning import call, plan

BODY = {"platform": "test", "platform_user_id": "ann", "platform_channel_id": "dm", "content": "hello"}


def frames(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Return name and content of each server-sent event."""
    events = []
    for frame in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in frame.splitlines() if not line.startswith(":"))
        if "data" in lines:
            events.append((lines.get("event", ""), json.loads(lines["data"])))
    return events


def refusal(response: httpx.Response) -> str:
    """Return the code and the sentence of a refusal, which never holds a traceback."""
    assert response.headers["content-type"] == "application/json"
    assert "Traceback" not in response.text
    error = response.json()["error"]
    return f"{response.status_code} {error['code']}: {error['message']}"


async def test_a_message_is_answered_with_an_agent_response(site: Site) -> None:
    response = await site.posts("hello")

    assert response.status_code == 200
    answer = response.json()
    assert answer["content"] == "You said: hello"
    assert answer["turn_id"] > 0
    assert answer["iterations"] == 1
    assert answer["finished"] is True
    assert answer["error"] is None
    assert answer["model"] == "openai/stub"
    assert answer["files"] == []
    assert answer["tool_calls_made"] == []
    assert answer["usage"]["input_tokens"] > 0


async def test_tool_calls_are_listed_with_their_results(site: Site) -> None:
    site.parley.model.play(
        [Answer(tool_calls=[("knowledge__remember", {"content": "Ann likes oolong."})]), Answer("Noted.")]
    )

    answer = (await site.posts("remember that I like oolong")).json()

    assert answer["content"] == "Noted."
    assert answer["iterations"] == 2
    assert [call["tool"] for call in answer["tool_calls_made"]] == ["knowledge.remember"]
    assert answer["tool_calls_made"][0]["args"] == {"content": "Ann likes oolong."}
    assert answer["tool_calls_made"][0]["result"]


async def test_the_same_event_twice_gives_the_first_answer_again(site: Site) -> None:
    first = await site.posts("hello", platform_event_id="42")
    second = await site.posts("something else", platform_event_id="42")

    assert second.json() == first.json()
    assert await site.parley.value("SELECT count(*) FROM turns") == 1


async def test_an_event_of_long_ago_is_answered_again_by_another_process(
    site: Site, settings: Settings, address: Address
) -> None:
    first = await site.posts("hello", platform_event_id="42")

    async with open_parley(settings, address, site.parley.model, works=False) as parley, open_site(parley) as other:
        assert (await other.posts("hello", platform_event_id="42")).json() == first.json()


async def test_the_same_event_at_the_same_time_is_one_turn(site: Site) -> None:
    answers = await asyncio.gather(*(site.posts("hello", platform_event_id="7") for _ in range(10)))

    assert {answer.json()["turn_id"] for answer in answers} == {answers[0].json()["turn_id"]}
    assert await site.parley.value("SELECT count(*) FROM turns") == 1


async def test_events_are_streamed_on_demand(site: Site) -> None:
    site.parley.model.play([Answer("A longer answer that comes in pieces.", chunk_delay=0.06)])

    response = await site.client.post("/v1/messages", json=BODY, headers={"Accept": "text/event-stream"})

    assert response.headers["content-type"].startswith("text/event-stream")
    events = frames(response.text)
    names = [name for name, _ in events]
    assert names[:2] == ["user_message", "turn_started"]
    assert names[-2:] == ["message", "turn_complete"]
    deltas = [event["text"] for name, event in events if name == "text_delta"]
    assert len(deltas) > 1
    assert "".join(deltas) == "A longer answer that comes in pieces."
    assert [event["seq"] for _, event in events] == sorted(event["seq"] for _, event in events)
    assert len({event["turn_id"] for _, event in events}) == 1
    assert events[-1][1]["iterations"] == 1
    assert events[-1][1]["usage"]["output_tokens"] > 0


async def test_a_message_without_a_server_is_a_direct_one(site: Site) -> None:
    await site.posts("hello")
    await site.posts("hello", platform_channel_id="general", platform_server_id="s1")
    await site.posts("hello", platform_channel_id="room", is_direct=False)

    rows = await site.parley.sql("SELECT platform_channel_id, is_direct FROM conversations ORDER BY id")
    assert [tuple(row) for row in rows] == [("dm", True), ("general", False), ("room", False)]


async def test_files_are_stored_and_named_to_the_model(site: Site) -> None:
    content = base64.b64encode(b"oolong: 3 minutes").decode()
    file = {"filename": "../tea.txt", "data": content, "mime_type": "text/plain", "size_bytes": 17}

    answer = (await site.posts("read this", attachments=[file])).json()

    assert "tea.txt (file_id" in answer["content"]
    rows = await site.parley.sql("SELECT filename, size_bytes, status FROM file_records")
    assert [tuple(row) for row in rows] == [("tea.txt", 17, "stored")]


async def test_a_copy_of_an_event_leaves_no_second_file(site: Site) -> None:
    file = {"filename": "a.txt", "data": base64.b64encode(b"once").decode()}
    for _ in range(2):
        await site.posts("read this", attachments=[file], platform_event_id="9")

    folder = site.parley.app.settings.parley_home / "files"
    assert sum(1 for path in folder.rglob("a.txt") if path.is_file()) == 1


async def test_a_body_with_files_may_be_larger_than_one_without(site: Site) -> None:
    file = {"filename": "big.bin", "data": base64.b64encode(bytes(1_500_000)).decode()}

    assert (await site.posts("take this", attachments=[file])).status_code == 200
    assert refusal(await site.posts("x" * 1_500_000)).startswith("413 too_large")


async def test_nul_bytes_and_lone_surrogates_are_cleaned(site: Site) -> None:
    body = json.dumps(BODY | {"content": "a\x00b \ud83d c", "platform_username": "An\x00n"})
    response = await site.client.post("/v1/messages", content=body, headers={"Content-Type": "application/json"})

    assert response.status_code == 200
    assert response.json()["content"] == "You said: ab \ufffd c"


async def test_a_command_is_answered_without_a_turn(site: Site) -> None:
    answer = (await site.posts("/help")).json()
    streamed = await site.client.post(
        "/v1/messages", json=BODY | {"content": "/help"}, headers={"Accept": "text/event-stream"}
    )

    assert "/help" in answer["content"]
    assert answer["turn_id"] == 0
    assert [name for name, _ in frames(streamed.text)] == ["message", "turn_complete"]
    assert await site.parley.value("SELECT count(*) FROM turns") == 0


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"platform": None}, "platform: input should be a valid string"),
    ({"platform": ""}, "platform: it may not be empty"),
    ({"platform_user_id": 7}, "platform_user_id: input should be a valid string"),
    ({"platform_channel_id": "x" * 201}, "platform_channel_id: string should have at most 200 characters"),
    ({"content": "x" * 100_001}, "content: string should have at most 100000 characters"),
    ({"content": "  "}, "content: it may be empty only when there are attachments"),
    ({"is_direct": "yes"}, "is_direct: input should be a valid boolean"),
    ({"sent_at": "yesterday"}, "sent_at: input should be a valid datetime"),
    ({"sent_at": 17}, "sent_at: write an ISO 8601 date and time"),
    ({"sent_at": "0001-01-01T00:00:00+14:00"}, "sent_at: the year must lie between 1970 and 2100"),
    ({"colour": "red"}, "colour: there is no such field"),
    ({"attachments": [{"filename": "a"}]}, "attachments.0: give either url or data"),
    ({"attachments": [{"filename": "a", "data": "*"}]}, "attachments.0.data: this is not base64"),
    ({"attachments": [{"filename": "a", "url": "file:///etc/passwd"}]}, "attachments.0.url: string should match"),
    (
        {"attachments": [{"filename": "a", "data": "YQ==", "size_bytes": 9}]},
        "attachments.0.size_bytes: the content has 1",
    ),
    ({"attachments": "a"}, "attachments: input should be a valid array"),
    ({"confirmation": {"id": 1}}, "confirmation.approved: field required"),
    ({"confirmation": {"id": 0, "approved": True}}, "confirmation.id: input should be greater than or equal to 1"),
    ({"confirmation": {"id": 1, "approved": "yes"}}, "confirmation.approved: input should be a valid boolean"),
]


async def test_a_wrong_field_is_named_with_its_reason(site: Site, subtests: pytest.Subtests) -> None:
    for change, reason in WRONG:
        with subtests.test(reason):
            response = await site.client.post("/v1/messages", json=BODY | change)

            assert refusal(response).startswith(f"400 invalid_request: {reason}")
    assert await site.parley.value("SELECT count(*) FROM inbox") == 0


async def test_a_missing_field_is_named(site: Site) -> None:
    assert refusal(await site.client.post("/v1/messages", json={})) == "400 invalid_request: platform: field required"


RAW = [
    (b"", "400 invalid_json: "),
    (b"{", "400 invalid_json: "),
    (b"\xff\xfe", "400 invalid_json: "),
    (b"[]", "400 invalid_request: Input should be an object"),
    (b'"hello"', "400 invalid_request: "),
    (b"[" * 100_000, "400 invalid_json: The JSON is nested deeper than 32 levels."),
    (b'{"a":' * 33 + b"1" + b"}" * 33, "400 invalid_json: The JSON is nested deeper"),
    (b'{"content": "' + b"\\" * 99_999, "400 invalid_json: "),
    (b'{"platform": ' + b"9" * 10_000 + b"}", "400 invalid_json: "),
    (b'{"platform": NaN}', "400 invalid_request: platform: "),
]


async def test_what_is_not_json_of_the_right_shape_is_refused(site: Site, subtests: pytest.Subtests) -> None:
    for body, reason in RAW:
        with subtests.test(str(body[:40])):
            response = await site.client.post(
                "/v1/messages", content=body, headers={"Content-Type": "application/json"}
            )

            assert refusal(response).startswith(reason)


async def test_brackets_inside_a_text_are_no_depth(site: Site) -> None:
    assert (await site.posts("[[{{" * 100 + '\\"[')).status_code == 200


async def test_an_oversize_body_is_refused_also_without_a_declared_length(site: Site) -> None:
    async def endless() -> Any:
        for _ in range(50):
            yield b" " * 100_000

    headers = {"Content-Type": "application/json"}
    declared = await site.client.post("/v1/messages", content=b" " * 5_000_000, headers=headers)
    undeclared = await site.client.post("/v1/messages", content=endless(), headers=headers)

    assert refusal(declared) == "413 too_large: Too large: the body may have 3 MB."
    assert refusal(undeclared) == refusal(declared)


async def test_another_content_type_is_refused(site: Site) -> None:
    plain = await site.client.post("/v1/messages", content=b"{}", headers={"Content-Type": "text/plain"})
    packed = {"Content-Type": "application/json", "Content-Encoding": "gzip"}

    assert refusal(plain).startswith("415 unsupported_media_type: Send the body with Content-Type: application/json")
    assert refusal(await site.client.post("/v1/messages", content=b"{}", headers=packed)).startswith("415")


async def test_a_wrong_token_is_refused(site: Site) -> None:
    paths = (
        ("POST", "/v1/messages"),
        ("POST", "/v1/chat/completions"),
        ("GET", "/v1/models"),
        ("GET", "/v1/conversations/1/events"),
        ("GET", "/metrics"),
    )
    headers = (None, "Bearer wrong", "Basic dGVzdA==", "Bearer", "Bearer tést-token")
    async with httpx.AsyncClient(base_url=site.url, verify=NO_CERTIFICATES) as stranger:
        for header, (method, path) in product(headers, paths):
            parameters = {} if header is None else {b"Authorization": header.encode()}
            result = refusal(await stranger.request(method, path, headers=parameters))
            assert result.startswith("401 unauthorized"), (header, path)


async def test_unknown_addresses_and_methods_are_refused_as_json(site: Site) -> None:
    assert refusal(await site.client.get("/nowhere")) == "404 not_found: There is nothing at this address."
    wrong = await site.client.get("/v1/messages")
    assert refusal(wrong) == "405 method_not_allowed: This address does not allow that method."
    assert wrong.headers["allow"] == "POST"


async def test_stored_events_of_a_conversation_can_be_read_back(site: Site) -> None:
    await site.posts("one")
    await site.posts("two")
    conversation = await site.parley.value("SELECT id FROM conversations")
    path = f"/v1/conversations/{conversation}/events"

    events = (await site.client.get(path)).json()["events"]
    first = (await site.client.get(path, params={"limit": 3})).json()["events"]
    rest = (await site.client.get(path, params={"after": first[-1]["id"]})).json()["events"]

    assert [event["name"] for event in events] == ["user_message", "turn_started", "message", "turn_complete"] * 2
    assert first + rest == events
    assert events[2]["payload"]["content"] == "You said: one"


async def test_wrong_conversations_and_pages_are_refused(site: Site) -> None:
    path = "/v1/conversations/{}/events"
    assert refusal(await site.client.get(path.format(999))).startswith("404 not_found: There is no conversation")
    assert refusal(await site.client.get(path.format("x"))).startswith("400 invalid_request: id: write a whole number")
    for query in ("after=-1", "after=1e3", "limit=100000", "limit=٣"):
        assert refusal(await site.client.get(path.format(1) + "?" + query)).startswith("400 invalid_request: ")


async def test_a_program_gives_credentials_with_a_message_and_they_end_with_its_turn(site: Site) -> None:
    response = await site.posts("hello", credentials={"pms": "lantern-4711-wagon"})
    assert response.json()["content"] == "You said: hello"
    assert await site.parley.sql("SELECT credentials FROM inbox") == [(None,)]

    for credentials in ({"pms": "short"}, {"no name": "lantern-4711-wagon"}, {"pms": 12345678}, ["lantern-4711-wagon"]):
        refusal = await site.posts("hello", credentials=credentials)
        assert refusal.status_code == 400
        assert "credentials" in refusal.json()["error"]["message"]
        assert "lantern" not in refusal.text


async def test_an_answer_names_its_conversation(site: Site) -> None:
    first = (await site.posts("hello", platform_event_id="1")).json()
    again = (await site.posts("hello", platform_event_id="1")).json()
    command = (await site.posts("/help")).json()
    events = (await site.client.get(f"/v1/conversations/{first['conversation_id']}/events")).json()["events"]

    assert again["conversation_id"] == first["conversation_id"]
    assert command["conversation_id"] is None
    assert {event["turn_id"] for event in events} == {first["turn_id"]}


@pytest.mark.settings(planner_percent=100)
async def test_an_answer_names_its_conversation_and_what_the_planner_did(site: Site) -> None:
    script = [plan(call("calculator.calculate", "c", expression="2+2"), action="add"), plan(response="Four.")]
    site.parley.model.play([*script, plan(response="Hi.")])

    first, again, plain = [
        (await site.posts("2+2?", platform_event_id=event_id)).json() for event_id in ("1", "1", "2")
    ]

    assert (first["content"], first["action"]) == ("Four.", "add")
    assert again == first
    assert first["conversation_id"] == await site.parley.value("SELECT id FROM conversations")
    assert "action" not in plain
