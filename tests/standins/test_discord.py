"""The stand-in for Discord refuses what Discord refuses."""

import json
from io import BytesIO
from typing import Any

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, FormData

from tests.standins.discord import DiscordStandIn, Limits, Person
from tests.standins.discord.rules import MEGABYTE
from tests.standins.discord.world import EPHEMERAL, HAS_THREAD, SUPPRESS_EMBEDS
from tests.support.eventually import PATIENCE

BUTTON = {"type": 2, "style": 1, "label": "x", "custom_id": "a"}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"content": "x" * 2001}, 50035),
        ({"content": "🐸" * 1001}, 50035),
        ({"content": " "}, 50006),
        ({"content": "x", "nonce": "n" * 26}, 50035),
        ({"content": "x", "colour": "red"}, 50035),
        ({"content": "x", "allowed_mentions": {"parse": ["all"]}}, 50035),
        ({"content": "x", "message_reference": {"message_id": "1"}}, 50035),
        ({"content": "x", "embeds": [{}] * 11}, 50035),
        ({"content": "x", "components": [{"type": 1, "components": []}]}, 50035),
        ({"content": "x", "components": [{"type": 1, "components": [BUTTON, BUTTON]}]}, 50035),
        ({"content": "x", "flags": 1 << 10}, 50035),
        ({"content": "x", "flags": 1 << 6}, 50035),
        ({"content": "x", "allowed_mentions": {"parse": ["users"], "users": ["1"]}}, 50035),
        ({"content": "x", "allowed_mentions": {"parse": [], "users": ["1"] * 101}}, 50035),
    ],
)
async def test_a_message_that_discord_would_refuse_is_refused(body: dict[str, object], code: int) -> None:
    async with DiscordStandIn() as discord, ClientSession() as session:
        url = f"{discord.api_base}/channels/{Person(discord, 'Ann').dm()['id']}/messages"
        async with session.post(url, json=body, headers={"Authorization": f"Bot {discord.token}"}) as response:
            assert (response.status, (await response.json())["code"]) == (400, code)


async def test_a_nonce_makes_one_message_only_when_it_is_enforced() -> None:
    async with DiscordStandIn() as discord, ClientSession() as session:
        dm = Person(discord, "Ann").dm()
        for enforced in (True, True, False):
            body = {"content": "x", "nonce": "1", "enforce_nonce": enforced}
            headers = {"Authorization": f"Bot {discord.token}"}
            async with session.post(f"{discord.api_base}/channels/{dm['id']}/messages", json=body, headers=headers):
                pass
        assert len(discord.world.messages[dm["id"]]) == 2


async def test_a_request_over_the_limit_is_a_429_with_the_time_to_wait() -> None:
    async with DiscordStandIn(limits=Limits(per_route=1, window=60)) as discord, ClientSession() as session:
        headers = {"Authorization": f"Bot {discord.token}"}
        statuses = []
        for _ in range(2):
            async with session.get(f"{discord.api_base}/users/@me", headers=headers) as response:
                statuses.append(response.status)
        assert statuses == [200, 429]
        assert float(response.headers["Retry-After"]) > 50
        assert response.headers["X-RateLimit-Scope"] == "user"
        assert (response.headers["X-RateLimit-Limit"], response.headers["X-RateLimit-Remaining"]) == ("1", "0")


async def test_a_nonce_is_the_authors_and_counts_in_every_channel() -> None:
    async with DiscordStandIn() as discord, ClientSession(headers=authorized(discord)) as session:
        ids = []
        for name in ("Ann", "Bob"):
            url = f"{discord.api_base}/channels/{Person(discord, name).dm()['id']}/messages"
            async with session.post(url, json={"content": "x", "nonce": "1", "enforce_nonce": True}) as response:
                ids.append((await response.json())["id"])
        assert ids[0] == ids[1]


def authorized(discord: DiscordStandIn) -> dict[str, str]:
    return {"Authorization": f"Bot {discord.token}"}


async def test_an_edit_adds_only_the_files_that_it_lists() -> None:
    async with DiscordStandIn() as discord, ClientSession(headers=authorized(discord)) as session:
        dm = Person(discord, "Ann").dm()
        message = discord.world.keep_message(dm, discord.world.bot, "x")
        url = f"{discord.api_base}/channels/{dm['id']}/messages/{message['id']}"
        for fields, filenames in (({}, []), ({"attachments": [{"id": 1}]}, ["b.txt"]), ({"attachments": []}, [])):
            form = FormData()
            form.add_field("payload_json", json.dumps({"content": "x"} | fields))
            form.add_field("files[0]", b"a", filename="a.txt")
            form.add_field("files[1]", b"b", filename="b.txt")
            async with session.patch(url, data=form) as response:
                assert [attachment["filename"] for attachment in (await response.json())["attachments"]] == filenames


async def test_an_edit_changes_no_flag_but_that_of_embeds_and_nothing_when_it_is_refused() -> None:
    async with DiscordStandIn() as discord, ClientSession(headers=authorized(discord)) as session:
        dm = Person(discord, "Ann").dm()
        message = discord.world.keep_message(dm, discord.world.bot, "x", flags=HAS_THREAD)
        url = f"{discord.api_base}/channels/{dm['id']}/messages/{message['id']}"
        for flags, outcome in ((SUPPRESS_EMBEDS | EPHEMERAL, HAS_THREAD | SUPPRESS_EMBEDS), (0, HAS_THREAD)):
            async with session.patch(url, json={"flags": flags}) as response:
                assert (await response.json())["flags"] == outcome
        # Each file is small enough, and all are too much for one request.
        form = FormData()
        attachments = [{"id": number} for number in range(4)]
        form.add_field("payload_json", json.dumps({"content": "y", "attachments": attachments}))
        for attachment in attachments:
            form.add_field(f"files[{attachment['id']}]", BytesIO(bytes(7 * MEGABYTE)), filename="a.bin")
        async with session.patch(url, data=form) as response:
            assert (response.status, message["content"], message["attachments"]) == (413, "x", [])


async def test_without_the_permission_the_history_is_empty() -> None:
    async with DiscordStandIn() as discord, ClientSession(headers=authorized(discord)) as session:
        ann = Person(discord, "Ann")
        channel = discord.world.add_channel(discord.world.add_guild("Acme", ann.user)["id"], "general")
        await ann.says("hello", channel)
        discord.world.forbid(channel, "read_message_history")
        async with session.get(f"{discord.api_base}/channels/{channel['id']}/messages") as response:
            assert (response.status, await response.json()) == (200, [])


@pytest.mark.parametrize(("kind", "most"), [(1, 100), (3, 15)])
async def test_there_may_be_so_many_commands_of_a_kind(kind: int, most: int) -> None:
    fields = {"description": "x"} if kind == 1 else {}
    async with DiscordStandIn() as discord, ClientSession(headers=authorized(discord)) as session:
        url = f"{discord.api_base}/applications/{discord.world.bot['id']}/commands"
        for count, status in ((most, 200), (most + 1, 400)):
            commands = [{"type": kind, "name": f"c{number}"} | fields for number in range(count)]
            async with session.put(url, json=commands) as response:
                assert response.status == status


@pytest.mark.parametrize(("data", "status"), [({"flags": 64}, 204), ({"flags": 4}, 400), ({"flags": 68}, 400)])
async def test_a_deferral_may_only_be_private(data: dict[str, int], status: int) -> None:
    async with DiscordStandIn() as discord, ClientSession() as session:
        ann = Person(discord, "Ann")
        discord.commands = [{"id": "1", "name": "ask"}]
        interaction = await ann.types("ask", ann.dm())
        url = f"{discord.api_base}/interactions/{interaction.payload['id']}/{interaction.token}/callback"
        async with session.post(url, json={"type": 5, "data": data}) as response:
            assert response.status == status


@pytest.mark.parametrize("body", [{"type": 6}, {"type": 7, "data": {"content": "x"}}])
async def test_only_a_click_edits_the_message_of_its_button(body: dict[str, Any]) -> None:
    async with DiscordStandIn() as discord, ClientSession() as session:
        ann = Person(discord, "Ann")
        discord.commands = [{"id": "1", "name": "ask"}]
        interaction = await ann.types("ask", ann.dm())
        url = f"{discord.api_base}/interactions/{interaction.payload['id']}/{interaction.token}/callback"
        async with session.post(url, json=body) as response:
            assert (response.status, (await response.json())["code"]) == (400, 50035)


async def next_payload(socket: ClientWebSocketResponse, *codes: int) -> dict[str, Any]:
    """Return the next message with one of these opcodes."""
    while True:
        message: dict[str, Any] = await socket.receive_json(timeout=PATIENCE)
        if message["op"] in codes:
            return message


async def test_a_session_that_was_closed_normally_or_with_another_token_is_not_resumed() -> None:
    async with DiscordStandIn() as discord, ClientSession() as session:
        discord.gateway.identify_seconds = 0.0
        identify = {"op": 2, "d": {"token": discord.token, "intents": 1 << 12}}
        for close, token, opcode in ((4000, discord.token, 0), (1000, discord.token, 9), (4000, "another", 9)):
            async with session.ws_connect(discord.gateway.url) as socket:
                await socket.send_json(identify)
                ready = await next_payload(socket, 0)
                await socket.close(code=close)
            await discord.gateway.until_gone()
            async with session.ws_connect(discord.gateway.url) as socket:
                resume = {"token": token, "session_id": ready["d"]["session_id"], "seq": ready["s"]}
                await socket.send_json({"op": 6, "d": resume})
                assert (await next_payload(socket, 0, 9))["op"] == opcode
            await discord.gateway.until_gone()


async def test_of_two_sessions_that_begin_at_once_one_is_refused() -> None:
    async with DiscordStandIn() as discord, ClientSession() as session:
        identify = {"op": 2, "d": {"token": discord.token, "intents": 1 << 12}}
        url = discord.gateway.url
        async with session.ws_connect(url) as first, session.ws_connect(url) as second:
            await first.send_json(identify)
            assert (await next_payload(first, 0, 9))["op"] == 0
            await second.send_json(identify)
            assert (await next_payload(second, 0, 9))["op"] == 9
