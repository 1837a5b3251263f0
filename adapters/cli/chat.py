"""`parley chat`: a conversation in the terminal, with or without a Parley that runs already."""

import asyncio
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import typer

from adapters.cli.console import progress
from adapters.cli.models import describe_models, describe_remedy, is_offline
from adapters.cli.opening import find_database, kept_up, prepare, read_settings
from shared import __version__

if TYPE_CHECKING:
    from adapters.terminal import Output, Reader
    from agent.app import App
    from agent.queue.heartbeats import LiveWorkers
    from shared.db.database import Address
    from shared.settings import Settings

app = typer.Typer()
WATCH_SECONDS = 3.0


@app.command("chat")
def chat() -> None:
    """Talk with the agent here; a pipe works too: one message per line in, plain answers out."""
    settings = read_settings(quiet=True)
    with progress("starting"):
        from adapters import terminal  # noqa: F401  # the slow imports, while something is shown
    try:
        has_failed = asyncio.run(_talk(settings, find_database(settings)))
    except asyncio.CancelledError:
        # After a signal everything is closed in order, including the embedded database.
        raise typer.Exit(128 + signal.SIGTERM) from None
    if has_failed and not sys.stdin.isatty():
        # Three: what was needed did not answer.
        raise typer.Exit(3)


async def _talk(settings: "Settings", address: "Address") -> bool:
    """Talk until the input ends; return whether a turn has failed."""
    from adapters.cli.compose import open_app
    from adapters.cli.neighbours import joined
    from adapters.cli.owner import resolve_terminal_user
    from adapters.cli.watchdog import watched
    from adapters.terminal import Chat, LiveOutput, PersonAtKeyboard, PipedLines, PlainOutput
    from agent.commands import list_commands

    talking = asyncio.current_task()
    for signal_number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(signal_number, lambda: talking and talking.cancel())
    async with (
        kept_up(settings, address),
        open_app(settings, await prepare(settings, address)) as running_app,
        joined(running_app),
    ):
        user = await resolve_terminal_user(running_app)
        is_at_keyboard = sys.stdin.isatty() and sys.stdout.isatty()
        output: Output = LiveOutput() if is_at_keyboard else PlainOutput()
        if is_at_keyboard:
            for line in (
                f"Parley {__version__}. You are {user.name} ({user.permission.label}).",
                f"Answers come from {describe_models(running_app.settings)}.",
                *([describe_remedy()] if is_offline(running_app.settings) else []),
                "/help lists the commands. Alt+Enter: new line. Ctrl+C: stop an answer. Ctrl+D: leave.\n",
            ):
                output.note(line)
        words = [*(word for command in list_commands("terminal") for word in command.beginnings), "/attach"]
        history = running_app.settings.parley_home / "chat_history"
        # Made for the input that is read alone: each begins to read at once.
        reader: Reader = PersonAtKeyboard(history, words) if is_at_keyboard else PipedLines()
        worker = LocalWorker(running_app)
        warming = asyncio.create_task(running_app.models.router.warm(), name="warm")
        try:
            with watched():
                conversation = Chat(running_app, reader, output, before_sending=worker.ensure_worker)
                await conversation.run()
                return conversation.has_failed
        finally:
            warming.cancel()
            await worker.close()
            await asyncio.gather(warming, return_exceptions=True)


class LocalWorker:
    """Runs a worker in this process as long as no other worker is alive."""

    def __init__(self, running_app: "App") -> None:
        self._app = running_app
        self._work: asyncio.Task[None] | None = None
        self._workers: LiveWorkers | None = None
        self._watch = asyncio.create_task(self._look_again(), name="look for workers")

    async def ensure_worker(self) -> None:
        """Start a worker in this process if no other is alive."""
        from agent.queue.heartbeats import LiveWorkers

        if self._work is not None and not self._work.done():
            return
        self._workers = self._workers or LiveWorkers()
        async with self._app.database.transaction() as session:
            if await self._workers.count(session, self._app.clock.monotonic()):
                return
        from adapters.cli.worker import build_worker

        self._work = asyncio.create_task(build_worker(self._app).run(), name="worker")

    async def close(self) -> None:
        """Stop the worker; its turns are finished or handed over."""
        tasks = [task for task in (self._watch, self._work) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _look_again(self) -> None:
        # A worker that was killed counts as alive until its heartbeat is too old.
        from shared.db.database import DatabaseLost

        while True:
            await asyncio.sleep(WATCH_SECONDS)
            with suppress(DatabaseLost):
                await self.ensure_worker()
