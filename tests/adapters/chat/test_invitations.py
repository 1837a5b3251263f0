"""Whose invitations are accepted."""

import pytest

from adapters.chat.account.invitations import Invitations
from shared.db.database import Address
from shared.settings import Settings
from tests.standins.openai_api import OpenAIStub
from tests.support.parley import open_parley

ADMIN, ANN, EVE = "@boss:example.org", "@ann:example.org", "@eve:evil.example.org"


@pytest.mark.parametrize(
    ("rule", "accepted"),
    [
        ("admins", {ADMIN}),
        ("all", {ADMIN, ANN, EVE}),
        (f"{EVE}, admins", {ADMIN, EVE}),
        ("*:example.org", {ADMIN, ANN}),
        ("*", set()),
        ("*example.org", set()),
        ("*.example.org", set()),
        ("", set()),
        (ANN.upper(), set()),
    ],
)
async def test_the_rule_says_who_may(
    settings: Settings, address: Address, model: OpenAIStub, rule: str, accepted: set[str]
) -> None:
    async with open_parley(settings, address, model, works=False) as parley:
        await parley.sql(
            "WITH boss AS (INSERT INTO users (display_name, permission_level) VALUES ('Boss', 'admin') RETURNING id) "
            "INSERT INTO user_platform_links (user_id, platform, platform_user_id) SELECT id, 'matrix', :id FROM boss",
            id=ADMIN,
        )
        invitations = Invitations(parley.app.database, "matrix", rule)
        assert {account for account in (ADMIN, ANN, EVE) if await invitations.is_welcome(account)} == accepted
