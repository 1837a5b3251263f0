"""Start the stand-in by hand: `python -m tests.standins.discord --port 9200`, then type messages to the bot."""

import argparse
import asyncio
import sys

from tests.standins.discord import DiscordStandIn, Person


async def serve(options: argparse.Namespace) -> None:
    """Serve until the process is ended; each line that is typed is a direct message, and answers are printed."""
    async with DiscordStandIn(options.token, port=options.port) as discord:
        ann = Person(discord, "Ann")
        guild = discord.world.add_guild("Parley", ann.user)
        discord.world.add_channel(guild["id"], "general", "Anything goes")
        settings = [f"{name}={value}" for name, value in discord.environment().items()]
        print(*settings, file=sys.stderr)  # noqa: T201  # a program to be started by hand
        while line := await asyncio.to_thread(sys.stdin.readline):
            count = len(ann.reads(ann.dm()))
            await ann.says(line.strip(), ann.dm())
            print((await ann.hears(ann.dm(), count + 1))[-1])  # noqa: T201  # as above


def main() -> None:
    """Read the options and serve."""
    parser = argparse.ArgumentParser(description="A strict stand-in for Discord.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one, which is printed")
    parser.add_argument("--token", help="the bot's token; one is made up")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
