"""Start the stand-in by hand: `python -m tests.standins.openai_api --port 9100`."""

import argparse
import asyncio
import json
import sys
from pathlib import Path

import uvloop

from tests.standins.openai_api.script import from_json
from tests.standins.openai_api.server import OpenAIStub


async def serve(options: argparse.Namespace) -> None:
    """Serve until the process is ended; the base URL is printed once it is reachable."""
    script = from_json(json.loads(options.script.read_text())) if options.script else None
    async with OpenAIStub(script, port=options.port, api_key=options.api_key, keep=options.keep) as stub:
        sys.stdout.write(f"{stub.base_url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def main() -> None:
    """Read the options and serve."""
    parser = argparse.ArgumentParser(description="A strict stand-in for an OpenAI-compatible model API.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one, which is printed")
    parser.add_argument("--api-key", help="refuse other bearers with 401")
    parser.add_argument("--script", type=Path, help="a JSON list as POST /_script takes it")
    parser.add_argument("--keep", type=int, default=10_000, help="requests kept in the journal")
    try:
        uvloop.run(serve(parser.parse_args()))
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
