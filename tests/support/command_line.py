"""The command line in this process: where a process of its own would prove nothing more, it saves its start."""

import asyncio
import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import structlog
from typer.testing import CliRunner

from adapters.cli import app
from adapters.cli.console import end_json
from shared.db.database import Address


@contextmanager
def kept_log() -> Iterator[None]:
    """Set the log up afterwards as it was: a command does that for its process, which here belongs to all tests."""
    root, before = logging.getLogger(), structlog.get_config() if structlog.is_configured() else None
    handlers, level = list(root.handlers), root.level
    try:
        yield
    finally:
        structlog.reset_defaults()
        if before is not None:
            structlog.configure(**before)
        root.handlers[:] = handlers
        root.setLevel(level)


async def types(address: Address, home: Path, *arguments: str, stdin: str = "", **settings: str) -> str:
    """Return what `parley …` writes to stdout; raises what the command raises."""
    environment = {"DATABASE_URL": address.libpq(as_owner=True), "PARLEY_HOME": str(home)} | settings
    runner = CliRunner(env=environment)

    def run() -> str:
        with kept_log():
            result = runner.invoke(app, list(arguments), input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        # As the program does at its end.
        with redirect_stdout(io.StringIO()) as json_text:
            end_json(result.exit_code)
        return result.stdout + json_text.getvalue()

    return await asyncio.to_thread(run)
