"""Start the stand-in by hand: `python -m tests.standins.slack --port 9300`, then type messages to the bot."""

import argparse
import asyncio
import sys

from tests.standins.slack import Person, SlackStandIn


async def serve(options: argparse.Namespace) -> None:
    """Serve until the process is ended; each line that is typed is a direct message, and answers are printed."""
    async with SlackStandIn(port=options.port) as slack:
        ann = Person(slack, "Ann")
        slack.world.add_channel("general", topic="Anything goes")
        settings = [f"{name}={value}" for name, value in slack.environment().items()]
        print(*settings, f"SLACK_SIGNING_SECRET={slack.signing_secret}", file=sys.stderr)  # noqa: T201  # a program to be started by hand
        if options.deliver_to:
            await slack.deliver_to(options.deliver_to)
        while line := await asyncio.to_thread(sys.stdin.readline):
            count = len(ann.written())
            await ann.direct(line.strip())
            print((await ann.hears(count=count + 1))[-1])  # noqa: T201  # as above


def main() -> None:
    """Read the options and serve."""
    parser = argparse.ArgumentParser(description="A strict stand-in for Slack.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one, which is printed")
    parser.add_argument("--deliver-to", default="", help="send everything to this address, not by Socket Mode")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
