"""Parts that run until the process is stopped: web server, worker, platforms."""

import asyncio
import gc
import os
import resource
import signal
import socket
import urllib.request  # noqa: F401  # as below
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING

import asyncpg
from msgspec import Struct, field
from sqlalchemy.exc import DBAPIError

# Answers import these where they use them; here they would hold up all others meanwhile.
import agent.commands.dry_run.trials  # noqa: F401
import shared.db.pooling.sessions
import shared.schedules.phrases  # noqa: F401
from adapters.cli.compose import list_routes, note_known_words, open_app, warm_models
from adapters.cli.console import complain
from adapters.cli.neighbours import joined
from adapters.cli.opening import find_database, kept_up, prepare
from adapters.cli.supervisor import Child
from adapters.cli.watchdog import EXIT_STATUS, end_within, watched
from adapters.cli.worker import build_worker
from agent.app import App
from agent.queue.job import GRACE_SECONDS
from shared import __version__
from shared.db.connections import NoDatabase, ReadOnlyDatabase
from shared.db.embedded.server import stop_servers
from shared.db.errors import is_lost
from shared.db.pooling.event_loop import Loop
from shared.errors import ConfigurationError, Unavailable
from shared.log import get_logger
from shared.settings import Settings
from shared.tracing.spans import traced_with

if TYPE_CHECKING:
    from adapters.base import ChatPlatform
    from adapters.cells.routes import Cells

log = get_logger()
MOST_FILES = 65_536
# Between two tries to reach the database at the start.
WAIT_SECONDS = 1.0
# After a signal the process ends at the latest; what is left of it when all parts have ended gets a moment.
END_SECONDS, LEFT_SECONDS = 27.0, 1.0
# Turns create thousands of objects, few of them in cycles: the collector may run less often.
COLLECT_AFTER = (20_000, 20, 20)


class Parts(Struct, frozen=True):
    """The parts that this process runs."""

    web: bool = False
    worker: bool = False
    # A worker only sends; the listening process holds the connections.
    listeners: "Sequence[ChatPlatform]" = ()
    senders: "Sequence[ChatPlatform]" = ()
    # How many workers there are, with those in processes beside this one; of an adapter alone, nobody knows.
    workers: int = 0
    # None: this process has no supervisor.
    child: Child | None = None
    # Ends this process with an exit code when something of it hangs.
    end: Callable[[int], object] = os._exit
    # The cells behind this door, with the settings of each; empty: there are none.
    cells: Mapping[str, Settings] = field(default_factory=dict)


def serve(settings: Settings, parts: Parts, on_ready: Callable[[App], Awaitable[None]]) -> None:
    """Run these parts until a signal; raises the error that ended a part."""
    settings = with_free_port(settings) if parts.web else settings
    allow_many_files()
    with asyncio.Runner(loop_factory=Loop) as runner:
        if runner.run(_serve(settings, parts, on_ready)):
            # A thread that imports the models' library can't be stopped, and everything else has ended.
            stop_servers()
            end_within(LEFT_SECONDS, 0, parts.end)


def allow_many_files() -> None:
    """Raise the number of files that the process may open, connections included, to what the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


async def _serve(settings: Settings, parts: Parts, on_ready: Callable[[App], Awaitable[None]]) -> bool:
    """Return whether a signal has ended it."""
    # The first SIGTERM or SIGINT stops the parts; a second one ends the process at once. With a supervisor only SIGKILL
    # does that: a service manager may send SIGTERM to all processes besides.
    signals = (signal.SIGTERM, signal.SIGINT) if parts.child is None else (signal.SIGTERM,)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop() -> None:
        if stopping.is_set():
            return
        stopping.set()
        end_within(END_SECONDS, EXIT_STATUS, parts.end)
        if parts.child is None:
            complain(f"stopping; running answers have {GRACE_SECONDS:.0f} s")
            for signal_number in signals:
                loop.remove_signal_handler(signal_number)
            # Who asks it to begin again while it stops does not end it at once.
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    for signal_number in signals:
        loop.add_signal_handler(signal_number, stop)
    # In a thread, so that a signal is noticed meanwhile.
    address = await asyncio.to_thread(find_database, settings)
    if not await _wait_for_database(partial(prepare, settings, address), stopping, parts.child):
        return True
    senders = {adapter: sender for sender in parts.senders for adapter in sender.adapters}
    async with kept_up(settings, address), open_app(settings, address, senders) as app:
        with ExitStack() as tracing:
            if (endpoint := app.settings.otel_exporter_otlp_endpoint) is not None:
                # Imported here: it takes 0.3 s and 10 MB.
                from shared.tracing.otlp import opened_tracer

                key = app.secrets.secret_keys[0]
                tracer = tracing.enter_context(opened_tracer(endpoint, key, version=__version__, clock=app.clock))
                tracing.enter_context(traced_with(tracer))
            # Who only listens keeps no files.
            async with joined(app) if parts.web or parts.worker else nullcontext():
                await _run(app, parts, on_ready, stopping=stopping)
    return stopping.is_set()


async def _run(app: App, parts: Parts, on_ready: Callable[[App], Awaitable[None]], stopping: asyncio.Event) -> None:
    async with AsyncExitStack() as closing:
        cells = None
        if parts.cells:
            # Imported here because a process before one cell needs none of it.
            from adapters.cli.cell_doors import opened_cells

            cells = await closing.enter_async_context(opened_cells(parts.cells, app))
        await _run_parts(app, parts, on_ready, stopping=stopping, cells=cells)


async def _run_parts(
    app: App,
    parts: Parts,
    on_ready: Callable[[App], Awaitable[None]],
    *,
    stopping: asyncio.Event,
    cells: "Cells | None",
) -> None:
    can_answer = asyncio.Event()
    if not app.models.router.is_slow_to_load():
        can_answer.set()
    for platform in (*parts.listeners, *parts.senders):
        platform.cells = cells
    tasks = [asyncio.create_task(listener.listen(app), name=listener.adapter) for listener in parts.listeners]
    if parts.worker:
        tasks.append(asyncio.create_task(_work(app, can_answer), name="worker"))
    if parts.web:
        # Imported here because a worker serves no HTTP.
        from adapters.web import serve as serve_web

        listening = asyncio.Event()
        tasks.append(
            asyncio.create_task(
                serve_web(app, lambda *_: listening.set(), mounted=list_routes(), workers=parts.workers, cells=cells),
                name="web",
            )
        )
        await asyncio.wait(
            {tasks[-1], asyncio.create_task(listening.wait(), name="listening")}, return_when=asyncio.FIRST_COMPLETED
        )
    await _wait_for_database(partial(note_known_words, app, with_models=False), stopping, parts.child)
    await _wait_for_database(partial(on_ready, app), stopping, parts.child)
    if parts.child is not None:
        parts.child.announce_ready()
    # After the start, because importing the models' library takes seconds.
    warming = asyncio.create_task(_warm(app, can_answer, answers=parts.worker), name="warm")
    signalled = asyncio.create_task(stopping.wait(), name="signal")
    with watched():
        await asyncio.wait({signalled, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        ended = [part for part in tasks if part.done()]
        for running in (*tasks, warming, signalled):
            running.cancel()
        await asyncio.gather(*tasks, warming, signalled, return_exceptions=True)
        # The error that ended a part is raised.
        for part in ended:
            log.error("part_ended", part=part.get_name())
            part.result()


async def _wait_for_database(
    work: Callable[[], Awaitable[object]], stopping: asyncio.Event, child: Child | None = None
) -> bool:
    """Do a part of the start that needs the database; return False when the process is to stop before.

    A database that is away, full or locked is waited for: the operator sees why, and nothing has to be restarted.
    """
    last_reason = ""
    while not stopping.is_set():
        if (reason := await _find_loss(work)) is None:
            return True
        # Once for the operator; the log names the other processes.
        if reason != last_reason and (child is None or child.number == 1):
            complain(f"waiting for the database: {reason}")
        elif reason != last_reason:
            log.warning("worker_waits_for_database", cause=reason)
        last_reason = reason
        with suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), WAIT_SECONDS)
    return False


async def _find_loss(work: Callable[[], Awaitable[object]]) -> str | None:
    # Why the database could not do this; None if it has been done.
    try:
        await work()
    except (NoDatabase, ReadOnlyDatabase, Unavailable, OSError, asyncpg.PostgresError, DBAPIError) as error:
        if not (isinstance(error, (NoDatabase, ReadOnlyDatabase, Unavailable)) or is_lost(error)):
            raise
        return f"{error}".partition("\n")[0]
    return None


async def _warm(app: App, can_answer: asyncio.Event, *, answers: bool) -> None:
    # Where litellm is needed, no turn runs before it is imported: meanwhile all connections but one plan the search in
    # memories.
    warming = (
        (app.memory.plan, partial(warm_models, app)),
        (app.memory.warm,),
        # Thousands of names, which nobody waits for.
        (partial(note_known_words, app),),
    )
    for together in warming if answers else ():
        # An import may fail in any way, a connection may be lost; the first message tries it again.
        for error in await asyncio.gather(*(warm() for warm in together), return_exceptions=True):
            if isinstance(error, Exception):
                log.error("warming_failed", exc_info=error)
        can_answer.set()
    # Half a million objects of libraries are never freed: the collector need not visit them.
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


async def _work(app: App, can_answer: asyncio.Event) -> None:
    # An import that shares the interpreter with turns takes ten times as long, and they wait for it all the same; here
    # messages wait in the database, and no turn's deadline has begun.
    worker = build_worker(app)
    await can_answer.wait()
    await worker.run()


def with_free_port(settings: Settings) -> Settings:
    """Check that the port is free, and choose one for port 0; raises `ConfigurationError` with the remedy."""
    try:
        family = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0][0]
        with socket.create_server((settings.host, settings.port), family=family) as server:
            return settings.model_copy(update={"port": server.getsockname()[1]})
    except socket.gaierror:
        raise ConfigurationError(f"HOST is wrong: this machine has no address {settings.host}.") from None
    except PermissionError:
        raise ConfigurationError(f"PORT {settings.port} needs root; set PORT to 1024 or more.") from None
    except OSError as error:
        where, cause = f"{settings.host}:{settings.port}", os.strerror(error.errno or 0)
        raise ConfigurationError(f"PORT: {where} can't be had ({cause}); set PORT to another one.") from None
