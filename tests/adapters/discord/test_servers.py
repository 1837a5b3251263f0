"""What a server's admin decides: what roles give, what all together may spend, and the first words."""

from tests.adapters.discord.conftest import Scene
from tests.standins.discord import Json, Person
from tests.standins.discord.world import now, snowflake
from tests.standins.openai_api import Answer

BIG = {"usage": {"prompt_tokens": 900, "completion_tokens": 200, "total_tokens": 1100}}


async def make_role(pond: Scene, name: str) -> Json:
    role = pond.discord.world.add_role(pond.guild["id"], name)
    event = {"guild_id": pond.guild["id"], "role": role}
    await pond.discord.gateway.dispatch("GUILD_ROLE_CREATE", event, pond.guild["id"])
    return role


def give(pond: Scene, person: Person, *roles: Json) -> None:
    pond.discord.world.members[pond.guild["id"], person.id]["roles"] = [role["id"] for role in roles]


async def test_the_highest_role_gives_permission_and_budget_and_takes_them_along(pond: Scene) -> None:
    await pond.discord.until(lambda: pond.discord.commands)
    keepers, helpers = await make_role(pond, "Keepers"), await make_role(pond, "Helpers")
    await pond.sql(
        "INSERT INTO role_grants (server, role, permission_level, token_budget) VALUES"
        " (:server, :keepers, 'admin', 90000), (:server, :helpers, 'user', 20000)",
        server=pond.guild["id"],
        keepers=keepers["id"],
        helpers=helpers["id"],
    )

    give(pond, pond.bob, keepers, helpers)
    assert "permission admin" in await (await pond.bob.types("me", pond.general)).answered()
    assert "of 90,000 tokens" in await (await pond.bob.types("budget", pond.general)).answered()
    assert "permission guest" in await (await pond.bob.types("me", pond.bob.dm())).answered()
    give(pond, pond.bob, helpers)
    assert "permission user" in await (await pond.bob.types("me", pond.general)).answered()
    assert "of 20,000 tokens" in await (await pond.bob.types("budget", pond.general)).answered()
    give(pond, pond.bob)
    assert "permission guest" in await (await pond.bob.types("me", pond.general)).answered()
    assert "of 5,000 tokens" in await (await pond.bob.types("budget", pond.general)).answered()


async def test_a_role_that_is_given_counts_for_messages_from_the_next_one_on(pond: Scene) -> None:
    await pond.sql("UPDATE users SET token_budget_monthly = 0")
    keepers = await make_role(pond, "Keepers")
    grant = "INSERT INTO role_grants (server, role, token_budget) VALUES (:server, :role, 50000)"
    await pond.sql(grant, server=pond.guild["id"], role=keepers["id"])
    pond.model.play([Answer("First."), Answer("Now I may.")])
    await pond.bob.asks("hello", pond.general)
    await pond.bob.hears(pond.general)
    await pond.sql("UPDATE users SET token_budget_monthly = 0")

    await pond.bob.asks("again", pond.general)
    refusal = (await pond.bob.hears(pond.general, 2))[1]
    give(pond, pond.bob, keepers)
    await pond.bob.asks("and now?", pond.general)

    assert refusal.startswith("You have used this month's budget")
    assert (await pond.bob.hears(pond.general, 3))[2] == "Now I may."


async def test_a_role_of_one_server_gives_nothing_on_another(pond: Scene) -> None:
    keepers = await make_role(pond, "Keepers")
    grant = "INSERT INTO role_grants (server, role, permission_level) VALUES ('1', :role, 'owner')"
    await pond.sql(grant, role=keepers["id"])
    give(pond, pond.bob, keepers)
    await pond.discord.until(lambda: pond.discord.commands)

    assert "permission guest" in await (await pond.bob.types("me", pond.general)).answered()


async def test_a_server_has_a_budget_besides_the_persons_and_the_refusal_names_it(pond: Scene) -> None:
    insert = "INSERT INTO servers (platform_server_id, token_budget_monthly) VALUES (:server, 1000)"
    await pond.sql(insert, server=pond.guild["id"])
    pond.model.play([Answer("Expensive.", **BIG), Answer("In private.")])  # type: ignore[arg-type]  # the usage alone

    await pond.ann.asks("hello", pond.general)
    await pond.ann.hears(pond.general)
    await pond.bob.asks("hello", pond.general)
    refusal = (await pond.bob.hears(pond.general, 2))[1]
    await pond.bob.says("hello", pond.bob.dm())

    standing = await (await pond.bob.types("budget", pond.general)).answered()
    alone = await (await pond.bob.types("budget", pond.bob.dm())).answered()

    assert refusal.startswith("This server has used this month's budget; it renews on ")
    assert standing.startswith("You have used 0 of 5,000 tokens; 5,000 are left.")
    assert "All together have used 1,100 of the 1,000 tokens of this server; 0 are left." in standing
    assert "server" not in alone
    assert await pond.bob.hears(pond.bob.dm()) == ["In private."]
    assert await pond.sql("SELECT tokens_used_this_month, tokens_reserved FROM servers") == [(1100, 0)]
    assert await pond.value("SELECT error FROM turns WHERE id = 2") == "budget_exhausted"
    assert await pond.value("SELECT count(*) FROM users WHERE tokens_reserved <> 0") == 0


async def test_who_has_used_up_their_own_budget_is_told_so_first(pond: Scene) -> None:
    insert = "INSERT INTO servers (platform_server_id, token_budget_monthly) VALUES (:server, 0)"
    await pond.sql(insert, server=pond.guild["id"])
    pond.model.play([])
    await pond.ann.asks("hello", pond.general)
    first = (await pond.ann.hears(pond.general))[0]
    await pond.sql("UPDATE users SET token_budget_monthly = 0")
    await pond.ann.asks("hello", pond.general)

    assert first.startswith("This server has used this month")
    assert (await pond.ann.hears(pond.general, 2))[1].startswith("You have used this month's budget")


def invite(pond: Scene) -> tuple[Json, Json, Json]:
    """Let Bob invite the bot to a new server; return the server, its channel and the event that it was joined."""
    lake = pond.discord.world.add_guild("The Lake", pond.ann.user, joined_at=now())
    shore = pond.discord.world.add_channel(lake["id"], "shore")
    pond.bob.joins(lake)
    pond.discord.world.inviters[lake["id"]] = pond.bob.id
    joined = pond.discord.world.guild_payload(lake["id"])
    del joined["unavailable"]
    return lake, shore, joined


async def test_a_new_server_is_greeted_once_and_the_inviter_gets_a_hint(pond: Scene) -> None:
    lake, shore, joined = invite(pond)

    await pond.discord.gateway.dispatch("GUILD_CREATE", joined, lake["id"])
    assert "`/help`" in (await pond.bob.hears(shore))[0]
    assert "Thank you for inviting me to **The Lake**" in (await pond.bob.hears(pond.bob.dm()))[0]

    event = {"id": lake["id"], "unavailable": False}
    await pond.discord.gateway.dispatch("GUILD_DELETE", event, lake["id"])
    await pond.discord.gateway.dispatch("GUILD_CREATE", joined, lake["id"])
    await pond.ann.says("hello", pond.ann.dm())
    await pond.ann.hears(pond.ann.dm())
    assert len(pond.bob.reads(shore)) == 1


async def test_a_channel_of_a_server_that_is_not_known_is_no_direct_conversation(pond: Scene) -> None:
    pond.model.play([Answer("Hello."), Answer("Directly.")])
    elsewhere = {"guild_id": snowflake(), "channel_id": snowflake(), "member": {"roles": []}}
    me = pond.discord.world.bot
    for content in ("among us", f"<@{me['id']}> hello"):
        heard = pond.discord.world.keep_message(pond.general, pond.ann.user, content) | elsewhere
        await pond.discord.gateway.dispatch("MESSAGE_CREATE", heard, None)
    await pond.ann.says("directly", pond.ann.dm())
    await pond.ann.hears(pond.ann.dm())

    rows = await pond.sql("SELECT content, is_direct, platform_server_id FROM inbox ORDER BY content")
    assert rows == [("directly", True, None), ("hello", False, elsewhere["guild_id"])]
    assert await pond.sql("SELECT platform_channel_id FROM direct_channels") == [(pond.ann.dm()["id"],)]
