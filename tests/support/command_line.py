"""The command line in this process: where a process of its own would prove nothing more, it saves its start."""

import asyncio
from pathlib import Path

from typer.testing import CliRunner

from adapters.cli import app
from shared.db.database import Address


async def types(address: Address, home: Path, *arguments: str, stdin: str = "", **settings: str) -> str:
    """Return what `parley …` writes to stdout; raises what the command raises."""
    environment = {"DATABASE_URL": address.libpq(as_owner=True), "PARLEY_HOME": str(home)} | settings
    runner = CliRunner(env=environment)
    done = await asyncio.to_thread(runner.invoke, app, list(arguments), input=stdin)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout
