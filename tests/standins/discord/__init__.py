"""A strict stand-in for Discord: gateway and REST API on loopback, people who use it, a journal of requests.

    async with DiscordStandIn() as discord:
        ann = Person(discord, "Ann")
        ...  # point DISCORD_API_BASE, DISCORD_GATEWAY and DISCORD_CDN_BASE to it
        await ann.says("hello", ann.dm())
        assert await ann.hears(ann.dm()) == ["Hi."]

`python -m tests.standins.discord --port 9200` starts one by hand.
"""

from tests.standins.discord.interactions import Interaction
from tests.standins.discord.limits import Limits
from tests.standins.discord.people import Person
from tests.standins.discord.server import CUT, SILENCE, DiscordStandIn, Fault, Sent
from tests.standins.discord.world import Json

__all__ = ["CUT", "SILENCE", "DiscordStandIn", "Fault", "Interaction", "Json", "Limits", "Person", "Sent"]
