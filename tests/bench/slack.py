"""`python -m tests.bench.slack`: a burst of 1,000 events, and 50 threads at once, with real processes.

One adapter process listens through Socket Mode, two workers answer through the Web API, the model takes 500 ms.
"""

import argparse
import asyncio
import gc
import time
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median

import uvloop

from tests.bench.chat import CHANNELS, MODEL_SECONDS, WORKERS, listening, loop_ms
from tests.bench.figures import Figure, report
from tests.bench.load import percentile
from tests.standins.slack import Json, Limits, Person, SlackStandIn

EVENTS, THREADS, ROUNDS = 1000, 50, 7
WAIT_SECONDS = 120


async def run(events: int, threads: int, workers: int, log: Path | None) -> list[Figure]:
    """Start everything, run both loads, and measure."""
    async with SlackStandIn(limits=Limits(factor=10_000)) as slack:
        own, connected = slack.environment(), slack.socket.until
        async with listening("slack", own, connected, workers=workers, log=log) as adapter_mb:
            channels = [slack.world.add_channel(f"channel-{number}") for number in range(CHANNELS)]
            people = [Person(slack, f"Person{number}") for number in range(CHANNELS)]
            for person, channel in zip(people, channels, strict=True):
                person.joins(channel)
            # The first round is a warm-up: it opens connections, prepares statements and looks up names.
            await _ask_in_threads(slack, people, channels, threads)
            figures = await _rounds(slack, people, channels, threads)
            figures += await _burst(slack, people, channels, events)
            return [*figures, Figure("memory of the listening process", adapter_mb(), "MB", at_most=200)]


async def _answer_times(slack: SlackStandIn, channels: list[Json], questions: list[Json]) -> dict[str, float]:
    """Return when each message's thread had its complete answer."""
    roots: dict[str, set[str]] = defaultdict(set)
    for number, question in enumerate(questions):
        roots[channels[number % CHANNELS]["id"]].add(question["ts"])
    first = min(post["ts"] for post in questions)
    times: dict[str, float] = {}

    def all_are() -> bool:
        # Runs after each change of the stand-in, on the processors that are measured: older messages are left out.
        for channel in list(roots):
            for message in reversed(slack.world.messages[channel].values()):
                if message["ts"] < first:
                    break
                root = str(message.get("thread_ts"))
                if root in roots[channel] and "bot_id" in message and not message.get("is_streaming"):
                    times[root] = time.monotonic()
                    roots[channel].discard(root)
            if not roots[channel]:
                del roots[channel]
        return not roots

    await slack.until(all_are, WAIT_SECONDS)
    return times


async def _ask_in_threads(
    slack: SlackStandIn, people: list[Person], channels: list[Json], threads: int
) -> tuple[float, ...]:
    """Ask a question in this many threads at the same time; return the milliseconds beyond the model's of each."""
    slack.journal.clear()
    began: dict[str, float] = {}
    jsons: list[Json] = []
    for number in range(threads):
        at = time.monotonic()
        jsons.append(await people[number % CHANNELS].mentions(channels[number % CHANNELS], f"question {number}"))
        began[jsons[-1]["ts"]] = at
        # Each event leaves as soon as its message is there, not when the last one is.
        await asyncio.sleep(0)
    times = await _answer_times(slack, channels, jsons)
    return tuple((times[key] - at - MODEL_SECONDS) * 1000 for key, at in began.items())


async def _rounds(slack: SlackStandIn, people: list[Person], channels: list[Json], threads: int) -> list[Figure]:
    """Ask in threads in several rounds; the goal is for the middle one, so that one slow moment does not decide."""
    loops, rounds = [], []
    for _ in range(ROUNDS):
        # What the stand-ins keep is looked through between the rounds: they share the processors with what is measured.
        gc.collect()
        gc.freeze()
        loops.append(loop_ms())
        rounds.append(await _ask_in_threads(slack, people, channels, threads))
    p95 = [percentile(latencies, 95) for latencies in rounds]
    return [
        Figure("threads at once", threads, ""),
        Figure("added time, p50", median(percentile(latencies, 50) for latencies in rounds), "ms"),
        Figure("added time, p95", median(p95), "ms", at_most=250),
        Figure("added time, p95, fastest round", min(p95), "ms"),
        Figure("added time, p95, slowest round", max(p95), "ms"),
        Figure("a fixed loop, for the machine", median(loops), "ms"),
    ]


async def _burst(slack: SlackStandIn, people: list[Person], channels: list[Json], events: int) -> list[Figure]:
    """Send this many messages as fast as possible, each in a new thread."""
    slack.journal.clear()
    # Slack sends a mention as a message event, too; only this one event is counted.
    slack.events.subscriptions = {"app_mention"}
    began = time.monotonic()
    questions = [
        await people[number % CHANNELS].mentions(channels[number % CHANNELS], f"burst {number}")
        for number in range(events)
    ]
    seconds = time.monotonic() - began
    times = await _answer_times(slack, channels, questions)
    timestamps = {question["ts"] for question in questions}
    result = [envelope for envelope in slack.journal.envelopes if envelope.payload["event"].get("ts") in timestamps]
    first = [envelope for envelope in result if envelope.attempt == 0]
    acks = tuple(1000 * envelope.seconds for envelope in first if envelope.seconds is not None)
    answers = Counter(
        message["thread_ts"]
        for channel in channels
        for message in slack.world.messages[channel["id"]].values()
        if "bot_id" in message and message.get("thread_ts") in timestamps
    )
    return [
        Figure("events in a burst", len(first), ""),
        Figure("seconds to write them", seconds, "s"),
        Figure("acknowledged", 100 * len(acks) / max(1, len(first)), "%", at_least=100),
        Figure("acknowledgement, p50", percentile(acks, 50), "ms"),
        Figure("acknowledgement, p99", percentile(acks, 99), "ms", at_most=1000),
        Figure("told a second time", len(result) - len(first), "", at_most=0),
        Figure("answered", len(answers), "", at_least=events),
        Figure("answered twice", sum(number > 1 for number in answers.values()), "", at_most=0),
        Figure("answers a second", events / (max(times.values()) - began), ""),
    ]


def main() -> None:
    """Measure and print the goals that were missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.slack", description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--threads", type=int, default=THREADS)
    parser.add_argument("--workers", type=int, default=WORKERS)
    parser.add_argument("--log", type=Path, help="where the processes write what they log")
    options = parser.parse_args()
    figures = uvloop.run(run(options.events, options.threads, options.workers, options.log))
    report(figures)


if __name__ == "__main__":
    main()
