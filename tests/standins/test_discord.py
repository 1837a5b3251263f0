"""The stand-in for Discord refuses what Discord refuses."""

import pytest
from aiohttp import ClientSession

from tests.standins.discord import DiscordStandIn, Limits, Person

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
