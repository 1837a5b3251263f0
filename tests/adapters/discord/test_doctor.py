"""`parley doctor` looks at the token, the intents, the permissions and the commands."""

from dataclasses import replace

from pydantic import SecretStr

from adapters.discord.platform import DiscordPlatform
from tests.adapters.discord.conftest import Scene


async def list_findings(scene: Scene) -> list[tuple[str, str]]:
    return [(finding.level, finding.text) async for finding in DiscordPlatform(scene.own).examine(scene.settings)]


async def test_all_is_well_once_the_bot_has_started(server: Scene) -> None:
    await server.discord.until(lambda: server.discord.commands)

    findings = await list_findings(server)

    assert [level for level, _ in findings] == ["ok"] * 4
    assert findings[0][1].startswith("the token is parley's")
    assert findings[2][1] == "Acme: all permissions"


async def test_what_is_missing_is_named_with_its_remedy(scene: Scene) -> None:
    scene.discord.world.application_flags = 0
    scene.guild["roles"][0]["permissions"] = str(1 << 10)

    _, intents, permissions, commands = await list_findings(scene)

    assert intents[0] == "fail"
    assert "Message Content Intent" in intents[1]
    assert permissions[0] == "fail"
    assert "send_messages" in permissions[1]
    assert "https://discord.com/oauth2/authorize" in permissions[1]
    assert commands[0] == "warn"
    assert "ask" in commands[1]


async def test_a_refused_token_is_reported(scene: Scene) -> None:
    scene.own = replace(scene.own, token=SecretStr("old"))

    assert await list_findings(scene) == [
        ("fail", "Discord refuses the token; make a new one in the developer portal and set DISCORD_TOKEN.")
    ]
