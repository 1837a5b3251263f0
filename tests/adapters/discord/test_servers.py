"""What a server's admin decides: what roles give, what all together may spend, and the first words."""

from tests.adapters.discord.conftest import Scene
from tests.standins.discord import Json, Person
from tests.standins.discord.world import now, snowflake
from tests.standins.openai_api import Answer

BIG = {"usage": {"prompt_tokens": 900, "completion_tokens": 200, "total_tokens": 1100}}


async def make_role(server: Scene, name: str) -> Json:
    role = server.discord.world.add_role(server.guild["id"], name)
    event = {"guild_id": server.guild["id"], "role": role}
    await server.discord.gateway.dispatch("GUILD_ROLE_CREATE", event, server.guild["id"])
    return role


def give(server: Scene, person: Person, *roles: Json) -> None:
    server.discord.world.members[server.guild["id"], person.id]["roles"] = [role["id"] for role in roles]


async def test_the_highest_role_gives_permission_and_budget_and_takes_them_along(server: Scene) -> None:
    await server.discord.until(lambda: server.discord.commands)
    keepers, helpers = await make_role(server, "Keepers"), await make_role(server, "Helpers")
    await server.sql(
        "INSERT INTO role_grants (server, role, permission_level, token_budget) VALUES"
        " (:server, :keepers, 'admin', 90000), (:server, :helpers, 'user', 20000)",
        server=server.guild["id"],
        keepers=keepers["id"],
        helpers=helpers["id"],
    )

    give(server, server.bob, keepers, helpers)
    assert "permission admin" in await (await server.bob.types("me", server.general)).answered()
    assert "of 90,000 tokens" in await (await server.bob.types("budget", server.general)).answered()
    assert "permission guest" in await (await server.bob.types("me", server.bob.dm())).answered()
    give(server, server.bob, helpers)
    assert "permission user" in await (await server.bob.types("me", server.general)).answered()
    assert "of 20,000 tokens" in await (await server.bob.types("budget", server.general)).answered()
    give(server, server.bob)
    assert "permission guest" in await (await server.bob.types("me", server.general)).answered()
    assert "of 5,000 tokens" in await (await server.bob.types("budget", server.general)).answered()


async def test_a_role_that_is_given_counts_for_messages_from_the_next_one_on(server: Scene) -> None:
    await server.sql("UPDATE users SET token_budget_monthly = 0")
    keepers = await make_role(server, "Keepers")
    grant = "INSERT INTO role_grants (server, role, token_budget) VALUES (:server, :role, 50000)"
    await server.sql(grant, server=server.guild["id"], role=keepers["id"])
    server.model.play([Answer("First."), Answer("Now I may.")])
    await server.bob.asks("hello", server.general)
    await server.bob.hears(server.general)
    await server.sql("UPDATE users SET token_budget_monthly = 0")

    await server.bob.asks("again", server.general)
    refusal = (await server.bob.hears(server.general, 2))[1]
    give(server, server.bob, keepers)
    await server.bob.asks("and now?", server.general)

    assert refusal.startswith("You have used this month's budget")
    assert (await server.bob.hears(server.general, 3))[2] == "Now I may."


async def test_a_role_of_one_server_gives_nothing_on_another(server: Scene) -> None:
    keepers = await make_role(server, "Keepers")
    grant = "INSERT INTO role_grants (server, role, permission_level) VALUES ('1', :role, 'owner')"
    await server.sql(grant, role=keepers["id"])
    give(server, server.bob, keepers)
    await server.discord.until(lambda: server.discord.commands)

    assert "permission guest" in await (await server.bob.types("me", server.general)).answered()


async def test_a_server_has_a_budget_besides_the_persons_and_the_refusal_names_it(server: Scene) -> None:
    insert = "INSERT INTO servers (platform_server_id, token_budget_monthly) VALUES (:server, 1000)"
    await server.sql(insert, server=server.guild["id"])
    server.model.play([Answer("Expensive.", **BIG), Answer("In private.")])  # type: ignore[arg-type]  # the usage alone

    await server.ann.asks("hello", server.general)
    await server.ann.hears(server.general)
    await server.bob.asks("hello", server.general)
    refusal = (await server.bob.hears(server.general, 2))[1]
    standing = await (await server.bob.types("budget", server.general)).answered()
    await server.bob.says("hello", server.bob.dm())
    alone = await (await server.bob.types("budget", server.bob.dm())).answered()

    assert refusal.startswith("This server has used this month's budget; it renews on ")
    assert standing.startswith("You have used 0 of 5,000 tokens; 5,000 are left.")
    assert "All together have used 1,100 of the 1,000 tokens of this server; 0 are left." in standing
    assert "server" not in alone
    assert await server.bob.hears(server.bob.dm()) == ["In private."]
    assert await server.sql("SELECT tokens_used_this_month, tokens_reserved FROM servers") == [(1100, 0)]
    assert await server.value("SELECT error FROM turns WHERE id = 2") == "budget_exhausted"
    assert await server.value("SELECT count(*) FROM users WHERE tokens_reserved <> 0") == 0


async def test_who_has_used_up_their_own_budget_is_told_so_first(server: Scene) -> None:
    insert = "INSERT INTO servers (platform_server_id, token_budget_monthly) VALUES (:server, 0)"
    await server.sql(insert, server=server.guild["id"])
    server.model.play([])
    await server.ann.asks("hello", server.general)
    first = (await server.ann.hears(server.general))[0]
    await server.sql("UPDATE users SET token_budget_monthly = 0")
    await server.ann.asks("hello", server.general)

    assert first.startswith("This server has used this month")
    assert (await server.ann.hears(server.general, 2))[1].startswith("You have used this month's budget")


def invite(server: Scene) -> tuple[Json, Json, Json]:
    """Let Bob invite the bot to a new server; return the server, its channel and the event that it was joined."""
    lake = server.discord.world.add_guild("The Lake", server.ann.user, joined_at=now())
    shore = server.discord.world.add_channel(lake["id"], "shore")
    server.bob.joins(lake)
    server.discord.world.inviters[lake["id"]] = server.bob.id
    joined = server.discord.world.guild_payload(lake["id"])
    del joined["unavailable"]
    return lake, shore, joined


async def test_a_new_server_is_greeted_once_and_the_inviter_gets_a_hint(server: Scene) -> None:
    lake, shore, joined = invite(server)

    await server.discord.gateway.dispatch("GUILD_CREATE", joined, lake["id"])
    assert "`/help`" in (await server.bob.hears(shore))[0]
    assert "Thank you for inviting me to **The Lake**" in (await server.bob.hears(server.bob.dm()))[0]

    event = {"id": lake["id"], "unavailable": False}
    await server.discord.gateway.dispatch("GUILD_DELETE", event, lake["id"])
    await server.discord.gateway.dispatch("GUILD_CREATE", joined, lake["id"])
    await server.ann.says("hello", server.ann.dm())
    await server.ann.hears(server.ann.dm())
    assert len(server.bob.reads(shore)) == 1


async def test_a_channel_of_a_server_that_is_not_known_is_no_direct_conversation(server: Scene) -> None:
    server.model.play([Answer("Hello."), Answer("Directly.")])
    elsewhere = {"guild_id": snowflake(), "channel_id": snowflake(), "member": {"roles": []}}
    me = server.discord.world.bot
    for content in ("among us", f"<@{me['id']}> hello"):
        heard = server.discord.world.keep_message(server.general, server.ann.user, content) | elsewhere
        await server.discord.gateway.dispatch("MESSAGE_CREATE", heard, None)
    await server.ann.says("directly", server.ann.dm())
    await server.ann.hears(server.ann.dm())

    rows = await server.sql("SELECT content, is_direct, platform_server_id FROM inbox ORDER BY content")
    assert rows == [("directly", True, None), ("hello", False, elsewhere["guild_id"])]
    assert await server.sql("SELECT platform_channel_id FROM direct_channels") == [(server.ann.dm()["id"],)]
