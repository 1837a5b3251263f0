"""Tokens of persons: what they may, what they may not, and how they end."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import httpx
import openai
import pytest
from openai import AsyncOpenAI

from tests.adapters.web.conftest import NO_CERTIFICATES, Site
from tests.support.summaries import remembered


@pytest.fixture
async def token(site: Site, owner: asyncpg.Connection) -> str:
    """A token of Ann, who has written before."""
    await site.posts("hello")
    text: str = await owner.fetchval("SELECT admin.create_token('test', 'ann')")
    return text


@pytest.fixture
async def ann(site: Site, token: str) -> AsyncIterator[httpx.AsyncClient]:
    """A program of Ann's own."""
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=site.url, headers=headers, timeout=30, verify=NO_CERTIFICATES) as client:
        yield client


def body(content: str, **fields: Any) -> dict[str, Any]:
    return {
        "platform": "test",
        "platform_user_id": "ann",
        "platform_channel_id": "desk",
        "content": content,
        **fields,
    }


async def test_a_token_speaks_for_its_person_at_every_address(site: Site, token: str, ann: httpx.AsyncClient) -> None:
    answer = (await ann.post("/v1/messages", json=body("one"))).json()
    async with AsyncOpenAI(base_url=f"{site.url}/v1", api_key=token, max_retries=0) as client:
        completion = await client.chat.completions.create(model="parley", messages=[{"role": "user", "content": "two"}])
        response = await client.responses.create(model="parley", input="three")
        stored = await client.responses.retrieve(response.id)
    events = (await ann.get(f"/v1/conversations/{answer['conversation_id']}/events")).json()["events"]

    assert answer["content"] == "You said: one"
    assert completion.choices[0].message.content == "You said: two"
    assert stored.output_text == "You said: three"
    assert "one" in str(events)
    assert await site.parley.value("SELECT count(*) FROM users") == 1
    assert await site.parley.value("SELECT count(*) FROM turns WHERE user_id = (SELECT id FROM users)") == 4
    assert await site.parley.value("SELECT last_used_at IS NOT NULL FROM api_tokens")


async def test_a_token_reaches_the_person_s_own_memories(site: Site, token: str, ann: httpx.AsyncClient) -> None:
    await site.posts("My locker code is 4711.")
    await remembered(site.parley)

    await ann.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": "My locker code?"}]})

    assert "4711" in str(site.parley.model.requests[-1].body["messages"])


OTHERS: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/v1/messages", {"json": body("x", platform_user_id="bob")}),
    ("POST", "/v1/messages", {"json": body("x", platform="discord")}),
    ("POST", "/v1/messages", {"json": body("x", platform_server_id="guild")}),
    ("POST", "/v1/messages", {"json": body("x", is_direct=False)}),
    ("POST", "/v1/messages", {"json": body("x", platform_server_id="guild", is_direct=True)}),
    ("POST", "/v1/messages", {"json": body("/budget", platform_user_id="bob")}),
    ("POST", "/v1/chat/completions", {"json": {"user": "bob", "messages": [{"role": "user", "content": "x"}]}}),
    ("POST", "/v1/chat/completions", {"json": {"user": "ann", "messages": [{"role": "user", "content": "x"}]}}),
    ("POST", "/v1/responses", {"json": {"input": "x"}, "headers": {"X-OpenWebUI-User-Id": "bob"}}),
    ("GET", "/v1/responses/resp_1?user=bob", {}),
    ("GET", "/metrics", {}),
    ("POST", "/a2a", {"json": {}}),
]


async def test_naming_another_is_a_403_and_leaves_nothing(
    site: Site, ann: httpx.AsyncClient, subtests: pytest.Subtests
) -> None:
    before = await site.parley.value("SELECT count(*) FROM inbox")
    for method, path, options in OTHERS:
        with subtests.test(f"{method} {path} {options}"):
            response = await ann.request(method, path, **options)

            assert response.status_code == 403
            assert response.json()["error"]["code"] in ("other_person", "forbidden")
    assert await site.parley.value("SELECT count(*) FROM inbox") == before


async def test_what_others_own_can_t_be_named(site: Site, ann: httpx.AsyncClient) -> None:
    bob: Any = {"platform_user_id": "bob", "platform_channel_id": "bobs"}
    theirs = (await site.posts("My code is 4711", platform_event_id="e", **bob)).json()
    mixed = (await site.posts("My code is 4711", platform_user_id="bob")).json()
    shared = (await site.posts("In the room", platform_server_id="guild", platform_channel_id="room")).json()
    async with AsyncOpenAI(base_url=f"{site.url}/v1", api_key="test-token", max_retries=0) as service:
        response = await service.responses.create(model="parley", input="My code is 4711", user="bob")

    # The channel and the event of Bob's message, as they stand in the tables.
    mine = (await ann.post("/v1/messages", json=body("And?", platform_channel_id="bobs", platform_event_id="e"))).json()
    absence = await ann.get("/v1/conversations/999999/events")

    assert mine["content"] == "You said: And?"
    assert mine["conversation_id"] != theirs["conversation_id"]
    assert "4711" not in str(site.parley.model.requests[-1].body)
    for conversation in (theirs, shared):
        refusal = await ann.get(f"/v1/conversations/{conversation['conversation_id']}/events")
        assert (refusal.status_code, refusal.text) == (absence.status_code, absence.text)
    # A place in which Ann began, and the program let Bob write, too.
    events = await ann.get(f"/v1/conversations/{mixed['conversation_id']}/events")
    assert "hello" in events.text
    assert "4711" not in events.text
    for method in ("GET", "DELETE"):
        assert (await ann.request(method, f"/v1/responses/{response.id}")).status_code == 404
    continued = await ann.post("/v1/responses", json={"input": "What is it?", "previous_response_id": response.id})
    assert continued.json()["error"]["code"] == "previous_response_not_found"


async def test_a_token_may_what_its_scopes_say(site: Site, owner: asyncpg.Connection, token: str) -> None:
    question = {"messages": [{"role": "user", "content": "x"}]}
    for scopes, allowed in (("chat", (200, 403)), (" READ ", (403, 200)), ("read, chat", (200, 200))):
        text = await owner.fetchval("SELECT admin.create_token('test', 'ann', $1)", scopes)
        headers = {"Authorization": f"Bearer {text}"}
        said = await site.client.post("/v1/chat/completions", json=question, headers=headers)
        read = await site.client.get("/v1/models", headers=headers)

        assert (said.status_code, read.status_code) == allowed


async def test_a_token_ends_when_it_is_revoked_or_over_and_does_not_come_back(
    site: Site, owner: asyncpg.Connection, token: str, ann: httpx.AsyncClient
) -> None:
    assert (await ann.get("/v1/models")).status_code == 200
    await owner.execute("SELECT admin.revoke_token(1)")
    assert (await ann.get("/v1/models")).status_code == 401
    entry = await owner.fetchval("SELECT max(id) FROM audit_log WHERE table_name = 'api_tokens'")
    with pytest.raises(asyncpg.PostgresError, match="token_hash_goes_when_it_is_revoked"):
        await owner.execute("SELECT admin.undo($1)", entry)
    with pytest.raises(asyncpg.RaiseError, match="no token 1 that is not revoked"):
        await owner.execute("SELECT admin.revoke_token(1)")
    second = await owner.fetchval("SELECT admin.create_token('test', 'ann', expires => now() + interval '1 day')")
    headers = {"Authorization": f"Bearer {second}"}
    assert (await site.client.get("/v1/models", headers=headers)).status_code == 200
    await owner.execute("UPDATE api_tokens SET expires_at = now() WHERE id = 2")
    assert (await site.client.get("/v1/models", headers=headers)).status_code == 401
    rows = await owner.fetch("SELECT action, new_values FROM audit_log WHERE table_name = 'api_tokens' ORDER BY id")
    assert [row["action"] for row in rows] == ["insert", "update", "insert", "update"]
    assert token not in str(rows)
    assert "hash" not in str(rows)


async def test_the_token_itself_is_nowhere_in_the_database(owner: asyncpg.Connection, token: str) -> None:
    row = await owner.fetchrow("SELECT * FROM api_tokens")
    assert row is not None
    assert token not in str(dict(row))
    assert token.removeprefix("parley_") not in str(dict(row))
    assert await owner.fetchval("SELECT token_hash = sha256(convert_to($1, 'UTF8')) FROM api_tokens", token)
    # Nor does a statement hold it, which the database may log.
    arguments = await owner.fetchval("SELECT pg_get_function_arguments('parley_use_token'::regproc)")
    assert arguments == "p_token_hash bytea"
    for wrong in ("admin", "chat,owner", ""):
        with pytest.raises(asyncpg.RaiseError, match="there is no scope"):
            await owner.fetchval("SELECT admin.create_token('test', 'ann', $1)", wrong)


async def test_an_admin_can_t_put_a_token_of_their_own_in_the_place_of_another(
    owner: asyncpg.Connection, token: str, ann: httpx.AsyncClient
) -> None:
    for role in ("parley_admin", "parley_readonly"):
        await owner.execute(f"SET ROLE {role}")
        for statement in (
            "UPDATE api_tokens SET token_hash = sha256('mine')",
            "UPDATE api_tokens SET user_id = user_id",
            "SELECT token_hash FROM api_tokens",
            "SELECT * FROM parley_use_token(sha256('mine'))",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await owner.execute(statement)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await owner.execute("SELECT admin.revoke_token(1)")
    await owner.execute("SET ROLE parley_admin")
    await owner.execute("UPDATE api_tokens SET scopes = '{read}', expires_at = now() + interval '1 day'")
    assert (await ann.get("/v1/models")).status_code == 200
    await owner.execute("SELECT admin.revoke_token(1)")
    assert (await ann.get("/v1/models")).status_code == 401


async def test_nobody_has_no_token(site: Site, owner: asyncpg.Connection) -> None:
    await site.client.post("/v1/responses", json={"input": "x"})

    with pytest.raises(asyncpg.RaiseError, match="anonymous is everybody"):
        await owner.fetchval("SELECT admin.create_token('openai', 'anonymous')")


@pytest.mark.parametrize("wrong", ["parley_", f"parley_{'0' * 64}", "parley_' OR '1'='1", "test-toke", "ä"])
async def test_a_wrong_token_is_a_401(site: Site, wrong: str) -> None:
    headers = {b"Authorization": f"Bearer {wrong}".encode()}

    response = await site.client.get("/v1/models", headers=headers)

    assert response.status_code == 401


async def test_who_is_erased_has_no_token(site: Site, owner: asyncpg.Connection, token: str) -> None:
    await owner.execute("DELETE FROM turns")
    await owner.execute("DELETE FROM users")

    assert await owner.fetchval("SELECT count(*) FROM api_tokens") == 0
    async with AsyncOpenAI(base_url=f"{site.url}/v1", api_key=token, max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError):
            await client.models.list()
