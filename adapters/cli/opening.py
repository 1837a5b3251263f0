"""The start of every command: settings, logging, and a migrated database."""

import asyncio
import getpass
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

from adapters.cli.console import progress
from shared.db.statements import load_statements

if TYPE_CHECKING:
    from sqlalchemy import TextClause

    from shared.db.database import Address, Database
    from shared.db.driver import Connection
    from shared.db.single import SmallDatabase
    from shared.settings import Settings

statements = load_statements(__file__)

Result = TypeVar("Result")


def read_settings(*, quiet: bool = False) -> "Settings":
    """Return the settings and set up logging; `quiet`, for what soon ends, shows only warnings and errors."""
    from adapters.cli.platforms import list_setting_names, read_all_settings
    from shared.log import configure_logging
    from shared.redaction import hide_settings
    from shared.settings import Secrets, list_secret_values, load_settings

    settings = load_settings(more_names=list_setting_names())
    hide_settings(list_secret_values(settings, Secrets("", ())))
    # Wrong settings of platforms are refused at the start, too.
    read_all_settings(settings)
    level = "WARNING" if quiet and settings.log_level == "INFO" else settings.log_level
    configure_logging(level, settings.log_format, is_late=quiet)
    return settings


def silence_log(settings: "Settings") -> None:
    """Log nothing, unless the settings ask for it: the command says itself, in a sentence, what goes wrong."""
    from shared.log import configure_logging

    if settings.log_level == "INFO":
        configure_logging("CRITICAL", settings.log_format, is_late=True)


def find_database(settings: "Settings") -> "Address":
    """Return the database's address; the embedded one is started."""
    from shared.db.database import locate
    from shared.errors import ConfigurationError
    from shared.settings.home import make_private

    home = settings.parley_home
    # With a given database nothing is stored in the home directory.
    if not (settings.database_url and settings.api_token and settings.secret_key):
        try:
            make_private(home)
            is_ours = os.access(home, os.W_OK | os.X_OK)
        except OSError:
            is_ours = False
        if not is_ours:
            raise ConfigurationError(f"PARLEY_HOME: {home} can't be made or written; set it to a folder of yours.")
    if settings.database_url is not None:
        return locate(settings)
    is_new = not (home / "postgres").exists()
    with progress("making a new Postgres (a few seconds, once)" if is_new else "starting Postgres"):
        return locate(settings)


def cancel_on(*signals: signal.Signals) -> None:
    """Have these signals cancel the running task, so that everything is closed in order."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    if task is not None:
        for signal_number in signals:
            loop.add_signal_handler(signal_number, task.cancel)


def start_database(settings: "Settings") -> Thread:
    """Start the embedded Postgres while the program is imported, which takes as long as to make a new one.

    `find_database` waits for it, and raises what goes wrong.
    """
    # Two threads that import the same packages may each get half of one, so this one imports nothing.
    from shared.db.database import locate
    from shared.errors import ConfigurationError

    def start() -> None:
        with suppress(ConfigurationError):
            locate(settings)

    thread = Thread(target=start, name="database", daemon=True)
    if settings.database_url is None:
        thread.start()
    return thread


def wait_for_database(thread: Thread) -> None:
    """Wait for what `start_database` has begun; import the page meanwhile, which is needed behind it."""
    if thread.is_alive():
        from adapters import web  # noqa: F401

        thread.join()


@asynccontextmanager
async def kept_up(settings: "Settings", address: "Address") -> AsyncIterator[None]:
    """While the block runs, start the embedded Postgres again whenever it has ended."""
    from shared.db.embedded.server import keep_running

    if not address.is_embedded:
        yield
        return
    keeping = asyncio.create_task(keep_running(settings.parley_home), name="embedded Postgres")
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


async def prepare(settings: "Settings", address: "Address") -> "Address":
    """Check the database's version, migrate its tables, and make sure that they can be read."""
    from adapters.tables import list_schemas, update_tables
    from shared.db.database import check
    from shared.db.migrations import are_current, check_tables
    from shared.log import get_logger

    if not address.is_embedded:
        get_logger().info("database_checked", server=str(await check(address)))
    with progress("bringing the tables up to date"):
        if await are_current(address, list_schemas(settings.modules_path)):
            return address
        await update_tables(address, settings.modules_path)
    await check_tables(address)
    return address


@asynccontextmanager
async def opened_database(settings: "Settings") -> "AsyncIterator[Database]":
    """Open the migrated database."""
    from shared.db.database import Database

    database = Database(await prepare(settings, find_database(settings)), pool_size=2)
    try:
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def opened_connection(settings: "Settings", address: "Address") -> "AsyncIterator[SmallDatabase]":
    """Open one connection to the database, migrated."""
    from shared.db.single import SmallDatabase

    database = SmallDatabase(await prepare(settings, address))
    try:
        yield database
    finally:
        await database.close()


def in_transaction(work: "Callable[[Connection, Settings], Awaitable[Result]]") -> Result:
    """Run `work` in one transaction, which is committed when it returns.

    Raises `Refusal` with the database's reason if it refuses a value.
    """

    async def whole(settings: "Settings") -> Result:
        async with opened_connection(settings, find_database(settings)) as database, database.transaction() as session:
            return await _begin(session, settings, work)

    return _run(whole)


def _run(whole: "Callable[[Settings], Coroutine[Any, Any, Result]]") -> Result:
    from shared.db.errors import refusals

    settings = read_settings(quiet=True)
    with refusals():
        return asyncio.run(whole(settings))


async def _begin(session: Any, settings: "Settings", work: "Callable[[Any, Settings], Awaitable[Result]]") -> Result:
    from agent.people.billing.budget import store_defaults

    await session.execute(statements.name_actor)
    await store_defaults(session, settings)
    return await work(session, settings)


def name_system_user() -> str:
    """Return the name of who has started this process, as the log of changes tells it."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A container's user may have a number only.
        return str(os.getuid())


def list_rows(statement: "TextClause", **parameters: Any) -> list[Any]:
    """Run one statement in a transaction of its own and return its rows."""

    async def work(session: "Connection", _settings: "Settings") -> list[Any]:
        return list((await session.execute(statement, parameters)).all())

    return in_transaction(work)
