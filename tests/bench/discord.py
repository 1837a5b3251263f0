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
            questions = await _ask(people, channels, messages)
            answers = await _answers(discord, channels, questions)
            return _figures(discord, questions, answers, adapter_mb())


def _populate(discord: DiscordStandIn) -> tuple[list[Person], list[Json]]:
    owner = Person(discord, "Owner")
    guild = discord.world.add_guild("Bench", owner.user)
    channels = [discord.world.add_channel(guild["id"], f"channel-{number}") for number in range(CHANNELS)]
    people = [Person(discord, f"Person{number}") for number in range(CHANNELS)]
    for person in people:
        person.joins(guild)
    return people, channels


async def _warm_up(discord: DiscordStandIn, person: Person, channels: list[Json]) -> None:
    sample = channels[: WORKERS * 4]
    for channel in sample:
        await person.asks("warm up", channel)
    await discord.until(lambda: all(person.reads(channel) for channel in sample), WARM_SECONDS)


async def _ask(people: list[Person], channels: list[Json], messages: int) -> dict[str, float]:
    """Send the messages in order; return the time of each."""
    questions: dict[str, float] = {}
    began = time.monotonic()
    for number in range(messages):
        await asyncio.sleep(max(0.0, began + number * SECONDS / MESSAGES - time.monotonic()))
        at = time.monotonic()
        message = await people[number % CHANNELS].asks(f"question {number}", channels[number % CHANNELS])
        questions[message["id"]] = at
    return questions


async def _answers(discord: DiscordStandIn, channels: list[Json], questions: dict[str, float]) -> dict[str, float]:
    """Return when each message was answered; the reply to coalesced messages refers to the last of them."""
    bot = discord.world.bot["id"]

    def covered() -> dict[str, float]:
        times: dict[str, float] = {}
        for channel in channels:
            message_ids: list[str] = []
            for message in discord.world.messages[channel["id"]].values():
                reference = message.get("message_reference", {}).get("message_id")
                if message["id"] in questions:
                    message_ids.append(message["id"])
                elif message["author"]["id"] == bot and reference in questions:
                    until = [message_id for message_id in message_ids if int(message_id) <= int(reference)]
                    times |= dict.fromkeys(until, discord.made_at[message["id"]])
                    message_ids = [message_id for message_id in message_ids if message_id not in until]
        return times

    await discord.until(lambda: len(covered()) == len(questions))
    return covered()


def _figures(
    discord: DiscordStandIn, questions: dict[str, float], answers: dict[str, float], adapter_mb: float
) -> list[Figure]:
    latencies = tuple((answers[key] - at - MODEL_SECONDS) * 1000 for key, at in questions.items())
    replies: list[Any] = [request for request in discord.sent("POST", "/messages") if request.status == 200]
    referred = [reply.body.get("message_reference", {}).get("message_id") for reply in replies]
    moments = sorted(request.at for request in discord.journal)
    busiest = max((sum(1 for other in moments if at <= other < at + 1) for at in moments), default=0)
    doubles = len(referred) - len(set(referred))
    return [
        Figure("added time, p50", percentile(latencies, 50), "ms"),
        Figure("added time, p95", percentile(latencies, 95), "ms", at_most=300),
        Figure("requests in the busiest second", busiest, "", at_most=45),
        Figure("answers refused with 429", sum(request.status == 429 for request in discord.journal), "", at_most=0),
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
