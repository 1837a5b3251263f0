"""Who answers: the closest persona of a place."""

from typing import Any

import pytest
from sqlalchemy import column, insert, table
from sqlalchemy.dialects.postgresql import JSONB

from agent.people.participants import DEFAULT_MAX_OUTPUT_TOKENS, ResolvedPersona
from agent.people.personas import resolve_persona
from agent.prompts import prompts
from shared.db.database import Database
from shared.messages import Permission, Place
from shared.settings import Settings

CHANNEL = Place("discord", "guild", "rules", "a thread")
SETTINGS = Settings(default_guest_modules=("knowledge",), max_agent_iterations=7)


async def add(database: Database, name: str, **fields: Any) -> None:
    values = {"name": name, "system_prompt": f"You are {name}.", **fields}
    columns = [column(name, JSONB if isinstance(value, list) else None) for name, value in values.items()]
    async with database.transaction() as session:
        await session.execute(insert(table("personas", *columns)).values(values))


async def find_persona(
    database: Database, place: Place = CHANNEL, permission: Permission = Permission.GUEST
) -> ResolvedPersona:
    async with database.transaction() as session:
        return await resolve_persona(session, place, permission, settings=SETTINGS)


async def test_the_closest_persona_answers(database: Database) -> None:
    assert (await find_persona(database)).name == "Parley"

    await add(database, "default", is_default=True)
    assert (await find_persona(database)).name == "default"
    await add(database, "platform", platform="discord")
    assert (await find_persona(database)).name == "platform"
    await add(database, "server", platform="discord", platform_server_id="guild")
    assert (await find_persona(database)).name == "server"
    await add(database, "channel", platform="discord", platform_server_id="guild", platform_channel_id="rules")
    assert (await find_persona(database)).name == "channel"


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (Place("discord", "guild", "rules"), "channel"),
        (Place("discord", "guild", "lounge"), "server"),
        (Place("discord", "another", "rules"), "platform"),
        (Place("discord", None, "dm-1", is_direct=True), "platform"),
        (Place("slack", "guild", "rules"), "default"),
    ],
)
async def test_a_persona_of_another_place_does_not_answer(database: Database, place: Place, name: str) -> None:
    await add(database, "channel", platform="discord", platform_server_id="guild", platform_channel_id="rules")
    await add(database, "server", platform="discord", platform_server_id="guild")
    await add(database, "platform", platform="discord")
    await add(database, "default", is_default=True)
    await add(database, "unused")

    assert (await find_persona(database, place)).name == name


async def test_a_channel_may_be_named_without_its_server(database: Database) -> None:
    await add(database, "dm", platform="discord", platform_channel_id="dm-1")
    await add(database, "platform", platform="discord")

    assert (await find_persona(database, Place("discord", None, "dm-1", is_direct=True))).name == "dm"
    assert (await find_persona(database)).name == "platform"


async def test_without_a_persona_guests_have_the_modules_of_the_setting_and_others_all(database: Database) -> None:
    guest, user = await find_persona(database), await find_persona(database, permission=Permission.USER)

    assert guest.allowed_modules == frozenset({"knowledge"})
    assert user.allowed_modules is None
    assert guest.system_prompt == prompts().persona.system
    assert (guest.id, guest.model, guest.max_iterations) == (None, None, 7)


async def test_a_persona_brings_its_modules_model_and_limits(database: Database) -> None:
    await add(
        database,
        "Sage",
        is_default=True,
        allowed_modules=["knowledge", "calendar"],
        default_model="openai/small",
        max_tokens_per_request=300,
        max_iterations=3,
    )

    persona = await find_persona(database)

    assert persona.allowed_modules == frozenset({"knowledge", "calendar"})
    assert (persona.model, persona.max_output_tokens, persona.max_iterations) == ("openai/small", 300, 3)


async def test_what_a_persona_leaves_open_comes_from_the_settings(database: Database) -> None:
    await add(database, "Sage", is_default=True)
    await add(database, "Mute", platform="discord", allowed_modules=[])

    sage = await find_persona(database, Place("slack", None, "dm"))
    assert sage.allowed_modules is None
    assert (sage.model, sage.max_output_tokens, sage.max_iterations) == (None, DEFAULT_MAX_OUTPUT_TOKENS, 7)
    assert (await find_persona(database)).allowed_modules == frozenset()
