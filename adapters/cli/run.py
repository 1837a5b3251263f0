"""`parley run`, `worker`, `adapter` and `link`: the processes that keep running, and the link to the page."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import typer

from adapters.cli.console import complain, say, seconds_since_start, shorten
from adapters.cli.endings import DONE
from adapters.cli.models import describe_models, describe_recall, describe_remedy, is_offline
from adapters.cli.opening import in_transaction, read_settings, start_database, wait_for_database
from adapters.cli.restart import Restart
from shared import __version__
from shared.errors import ConfigurationError
from shared.settings import copy_environment, load_secrets

if TYPE_CHECKING:
    from adapters.base import ChatPlatform
    from adapters.cli.supervisor import Child
    from agent.app import App
    from shared.db.driver import Session
    from shared.settings import Settings

app = typer.Typer()


@app.command("run")
def run_all(
    is_older: bool = typer.Option(False, "--older-process", hidden=True, help="This process did something before."),
) -> None:
    """Start everything that is configured: tables, web page, HTTP API, platforms, and WORKERS workers."""
    restart = Restart(copy_environment())
    settings = read_settings()
    database = start_database(settings)
    from adapters.cli.platforms import build_platforms
    from adapters.cli.serving import Parts, serve, with_free_port

    settings = read_settings()
    if settings.cells is not None:
        raise ConfigurationError(
            "CELLS is for doors: start `parley adapter web` with it, and `parley worker` with each cell's DATABASE_URL."
        )
    # The port stays the same when the process that has it is started again.
    settings = with_free_port(settings)
    count = settings.count_workers()
    platforms = build_platforms(settings)
    # Referenced here, because the event loop keeps no tasks.
    tasks: list[asyncio.Task[None]] = []

    def run_first(child: "Child | None") -> None:
        _name_log_lines(settings, child)

        async def report(running_app: "App") -> None:
            lines = await _list_addresses(running_app, count)
            say("\n".join([f"Parley {__version__} is ready{'' if is_older else _describe_start(child)}", *lines]))
            for platform in platforms:
                say(f"  {platform.adapter:9} {'listening' if platform.connected.is_set() else 'connecting …'}")
            say("Ctrl+C stops it.")
            tasks.append(asyncio.create_task(_say_missing_keys(running_app)))
            tasks.extend(
                asyncio.create_task(_say_connected(platform))
                for platform in platforms
                if not platform.connected.is_set()
            )

        parts = Parts(
            web=True, worker=True, listeners=platforms, senders=platforms, workers=count, child=child, end=restart.end
        )
        serve(settings, parts, report)

    wait_for_database(database)
    with restart.offered(settings.parley_home):
        code = _run_processes(settings, [run_first, *[partial(_run_next, settings, platforms)] * (count - 1)])
    restart.begin_again(code)
    raise typer.Exit(code)


@app.command("worker")
def run_worker() -> None:
    """Run one more worker, or WORKERS: it takes messages from the queue and answers them."""
    from adapters.cli.platforms import build_platforms
    from adapters.cli.serving import Parts, serve

    settings = read_settings()
    count = settings.workers or 1
    platforms = build_platforms(settings)

    def run_first(child: "Child | None") -> None:
        _name_log_lines(settings, child)

        async def report(running_app: "App") -> None:
            if (shortage := await _find_shortage(running_app, count)) is not None:
                complain(shortage)
            who = "the worker is ready" if count == 1 else f"the first of {count} workers is ready"
            say(f"{who}; answers come from {describe_models(settings)}")

        serve(settings, Parts(worker=True, senders=platforms, child=child), report)

    raise typer.Exit(_run_processes(settings, [run_first, *[partial(_run_next, settings, platforms)] * (count - 1)]))


@app.command("adapter")
def run_adapter(name: str = typer.Argument(metavar="NAME", help="web, or a chat platform.")) -> None:
    """Run one adapter only: what comes in there is stored and waits for a worker."""
    from adapters.cli.platforms import WEB, build_accounts, build_platforms
    from adapters.cli.serving import Parts, serve

    settings = read_settings()
    cells: Mapping[str, Settings] = {}
    if settings.cells is not None:
        # Imported here because only a door before several cells needs it.
        from adapters.cells.addresses import read_cells

        cells = read_cells(settings)
        settings = next(iter(cells.values()))
    if name == WEB:
        # The web adapter also serves the platforms' routes.
        parts = Parts(web=True, senders=build_platforms(settings, only_http=True), cells=cells)
    else:
        parts = Parts(listeners=build_accounts(name, settings), cells=cells)

    async def report(running_app: "App") -> None:
        lines = await _list_addresses(running_app) if parts.web else [f"{name} is open"]
        say("\n".join(lines))

    serve(settings, parts, report)


@app.command("link")
def make_link(
    person: str | None = typer.Option(
        None,
        "--as",
        metavar="ID",
        help="For this person on the platform web; else for the owner.",
    ),
) -> None:
    """Print a link that opens the chat page once, within ten minutes."""

    async def work(session: "Session", settings: "Settings") -> tuple[str, str]:
        from adapters.cli.owner import find_owner_on_the_web
        from agent.people.links import LinkSigner, one_time_link
        from shared.clock import SystemClock

        who, name = (person, person) if person else await find_owner_on_the_web(session)
        return one_time_link(LinkSigner(settings, load_secrets(settings), SystemClock()), who), name

    link, name = in_transaction(work)
    # On stderr, so that a program can take the link from stdout.
    complain(f"the link opens the page as {name}, once, within ten minutes")
    say(link)


def _run_processes(settings: "Settings", programs: "Sequence[Callable[[Child | None], None]]") -> int:
    """Run these programs, each in a process of its own, a single one in this process; return the exit code."""
    if len(programs) == 1:
        programs[0](None)
        return DONE
    from adapters.cli.supervisor import Supervisor
    from shared.db.database import locate

    def hold_database() -> None:
        # The embedded server stops with the last process that holds it: not with a worker.
        if settings.database_url is None:
            with suppress(ConfigurationError):
                locate(settings)

    return Supervisor(programs, on_ready=hold_database).run()


def _run_next(settings: "Settings", platforms: "Sequence[ChatPlatform]", child: "Child | None") -> None:
    from adapters.cli.serving import Parts, serve
    from shared.log import get_logger

    _name_log_lines(settings, child)

    async def report(_running_app: "App") -> None:
        get_logger().info("worker_ready")

    serve(settings, Parts(worker=True, senders=platforms, child=child), report)


def _name_log_lines(settings: "Settings", child: "Child | None") -> None:
    from shared.log import configure_logging

    if child is not None:
        configure_logging(settings.log_level, settings.log_format, worker=child.number)


def _describe_start(child: "Child | None") -> str:
    if child is not None and not child.is_first_start:
        return " again"
    seconds = seconds_since_start(os.getpid() if child is None else child.supervisor)
    return "" if seconds is None else f" after {seconds:.1f} s"


async def _find_shortage(running_app: "App", count: int) -> str | None:
    from shared.db.pooling.room import find_shortage

    return find_shortage(await running_app.database.read_server(), count)


async def _say_connected(platform: "ChatPlatform") -> None:
    await platform.connected.wait()
    say(f"  {platform.adapter:9} listening")


async def _say_missing_keys(running_app: "App") -> None:
    settings = running_app.settings
    for name in settings.llm_models if settings.debug_mock_responses is None else ():
        if variables := await running_app.models.router.find_missing(name):
            say(f"  model     {name} needs {' and '.join(variables)}, which is not set")


async def _list_addresses(running_app: "App", workers: int = 0) -> list[str]:
    from adapters.cli.owner import find_owner_on_the_web
    from adapters.web import one_time_link
    from shared.db.pooling.room import find_shortage

    settings = running_app.settings
    async with running_app.database.transaction() as session:
        who, name = await find_owner_on_the_web(session)
    base = settings.public_url or f"http://{settings.host}:{settings.port}"
    token = "API_TOKEN" if settings.api_token else f"the token in {shorten(settings.parley_home / 'api_token')}"
    is_embedded = running_app.database.address.is_embedded
    server = await running_app.database.read_server()
    where = f"embedded, in {shorten(settings.parley_home / 'postgres')}" if is_embedded else f"DATABASE_URL: {server}"
    # A call would cost tokens at every start.
    is_tried_later = settings.llm_models and not settings.debug_mock_responses
    shortage = find_shortage(server, workers)
    trial = "; not tried: `parley doctor --call` does" if is_tried_later else ""
    return [
        f"  page      {one_time_link(running_app, who)}",
        f"            opens once, within 10 minutes, as {name}; `parley link` makes another",
        "  terminal  parley chat",
        f"  API       {base.rstrip('/')}/v1/messages and /v1/chat/completions, with {token}",
        f"  model     {describe_models(settings)}{trial}",
        *([f"            {describe_remedy()}"] if is_offline(settings) else []),
        f"  recall    {describe_recall(settings)[1]}",
        f"  database  {where}",
        *([f"  workers   {workers}"] if workers else []),
        *([f"            {shortage}"] if shortage else []),
    ]
