"""`python -m tests.bench.discord`: 200 messages in 10 s over 50 channels, against the stand-in, with real processes.

One adapter process listens, two workers answer through REST, the model takes 500 ms.
"""

import argparse
import asyncio
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import uvloop

from tests.bench.chat import CHANNELS, MODEL_SECONDS, WORKERS, listening
from tests.bench.figures import Figure, report
from tests.bench.load import percentile
from tests.standins.discord import DiscordStandIn, Json, Limits, Person

MESSAGES, SECONDS = 200, 10.0
WARM_SECONDS = 180


async def run(messages: int, log: Path | None) -> list[Figure]:
    """Start everything, send the messages at an even pace, and measure the answers."""
    async with DiscordStandIn(limits=Limits(per_route=5, window=5.0)) as discord:
        people, channels = _populate(discord)
        own, connected = discord.environment(), discord.gateway.until
        async with listening("discord", own, connected, workers=WORKERS, log=log) as adapter_mb:
            await _warm_up(discord, people[0], channels)
            discord.journal.clear()
            asked = await _ask(people, channels, messages)
            answered = await _answers(discord, channels, asked)
            return _figures(discord, asked, answered, adapter_mb())


def _populate(discord: DiscordStandIn) -> tuple[list[Person], list[Json]]:
    owner = Person(discord, "Owner")
    guild = discord.world.add_guild("Bench", owner.user)
    channels = [discord.world.add_channel(guild["id"], f"channel-{number}") for number in range(CHANNELS)]
    people = [Person(discord, f"Person{number}") for number in range(CHANNELS)]
    for person in people:
        person.joins(guild)
    return people, channels


async def _warm_up(discord: DiscordStandIn, person: Person, channels: list[Json]) -> None:
    used = channels[: WORKERS * 4]
    for channel in used:
        await person.asks("warm up", channel)
    await discord.until(lambda: all(person.reads(channel) for channel in used), WARM_SECONDS)


async def _ask(people: list[Person], channels: list[Json], messages: int) -> dict[str, float]:
    """Send the messages in order; return the time of each."""
    asked: dict[str, float] = {}
    began = time.monotonic()
    for number in range(messages):
        await asyncio.sleep(max(0.0, began + number * SECONDS / MESSAGES - time.monotonic()))
        at = time.monotonic()
        message = await people[number % CHANNELS].asks(f"question {number}", channels[number % CHANNELS])
        asked[message["id"]] = at
    return asked


async def _answers(discord: DiscordStandIn, channels: list[Json], asked: dict[str, float]) -> dict[str, float]:
    """Return when each message was answered; the reply to coalesced messages refers to the last of them."""
    bot = discord.world.bot["id"]

    def covered() -> dict[str, float]:
        found: dict[str, float] = {}
        for channel in channels:
            waiting: list[str] = []
            for message in discord.world.messages[channel["id"]].values():
                reference = message.get("message_reference", {}).get("message_id")
                if message["id"] in asked:
                    waiting.append(message["id"])
                elif message["author"]["id"] == bot and reference in asked:
                    until = [each for each in waiting if int(each) <= int(reference)]
                    found |= dict.fromkeys(until, discord.made_at[message["id"]])
                    waiting = [each for each in waiting if each not in until]
        return found

    await discord.until(lambda: len(covered()) == len(asked))
    return covered()


def _figures(
    discord: DiscordStandIn, asked: dict[str, float], answered: dict[str, float], adapter_mb: float
) -> list[Figure]:
    added = tuple((answered[key] - at - MODEL_SECONDS) * 1000 for key, at in asked.items())
    replies: list[Any] = [each for each in discord.sent("POST", "/messages") if each.status == 200]
    referred = [each.body.get("message_reference", {}).get("message_id") for each in replies]
    moments = sorted(each.at for each in discord.journal)
    busiest = max((sum(1 for other in moments if at <= other < at + 1) for at in moments), default=0)
    doubles = len(referred) - len(set(referred))
    return [
        Figure("added time, p50", percentile(added, 50), "ms"),
        Figure("added time, p95", percentile(added, 95), "ms", at_most=300),
        Figure("requests in the busiest second", busiest, "", at_most=45),
        Figure("answers refused with 429", sum(each.status == 429 for each in discord.journal), "", at_most=0),
        Figure("messages answered twice", doubles, "", at_most=0),
        Figure("longest silence between requests", max(b - a for a, b in pairwise(moments)), "s"),
        Figure("memory of the gateway process", adapter_mb, "MB", at_most=150),
    ]


def main() -> None:
    """Measure and print the goals that were missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.discord", description=__doc__)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--log", type=Path, help="where the processes write what they log")
    options = parser.parse_args()
    figures = uvloop.run(run(options.messages, options.log))
    report(figures)


if __name__ == "__main__":
    main()
