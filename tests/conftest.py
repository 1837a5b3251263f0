"""Shared fixtures: a real Postgres, a migrated database for each test, and a Parley with its worker."""

import asyncio
import gc
import os
import signal
import tempfile
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from pathlib import Path
from uuid import uuid4

import asyncpg
import hypothesis
import pytest
import structlog
from pydantic import SecretStr

from adapters.cli.serving import COLLECT_AFTER
from agent.llm.providers.library import import_litellm
from shared.db.database import Address, Database
from shared.db.hosts import URL
from shared.db.pooling.event_loop import Loop
from shared.settings import Settings
from tests.crash.tables import TABLES
from tests.standins.openai_api import OpenAIStub
from tests.support.connections import connected, run_as_owner
from tests.support.databases import Databases
from tests.support.folders import temporary_folder
from tests.support.given_database import GivenTables, given_tables
from tests.support.parley import Parley, open_parley
from tests.support.template import start_copy

# What processes started by tests inherit; those that are about recall by meaning name their model.
os.environ.setdefault("EMBEDDING_MODEL", "off")
# The same examples in each run, however long one takes on a busy machine.
hypothesis.settings.register_profile(
    "parley",
    max_examples=50,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("parley")
# As the program does: the library's own formatter prints the variables of each frame, which can take half a minute.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts programs in the background like that, and the commands that tests interrupt would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


class ClosingLoop(Loop):
    """The loop that the program has, which also takes less of the processor than Python's own."""

    def close(self) -> None:
        """Close it, also while warnings are errors: one about an open connection would leave uvloop waiting for it."""
        with warnings.catch_warnings():
            warnings.simplefilter("default", ResourceWarning)
            super().close()


class EventLoopPolicy(asyncio.DefaultEventLoopPolicy):
    """Has everything in a test process run on it."""

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        """Return a new loop."""
        return ClosingLoop()


asyncio.set_event_loop_policy(EventLoopPolicy())


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name bytes by their argument: archives contain their time of creation, so that ids would differ in each run."""
    return argname if isinstance(val, bytes) else None


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the test; pytest's own one takes a millisecond, most of it for a link to the newest of each name."""
    return Path(tempfile.mkdtemp(dir=tmp_path_factory.getbasetemp()))


@pytest.fixture(scope="session")
def postgres() -> Iterator[URL]:
    """A server for this test process, with a migrated template database, and without durability."""
    with temporary_folder("test") as folder:
        yield start_copy(folder)


@pytest.fixture(scope="session")
async def superuser(postgres: URL) -> AsyncIterator[asyncpg.Connection]:
    """The connection that makes and drops the databases; one of its own would cost each test 30 ms."""
    async with connected(Address(postgres, is_embedded=True)) as superuser:
        yield superuser


@pytest.fixture(scope="session")
async def databases(postgres: URL, superuser: asyncpg.Connection) -> AsyncIterator[Databases]:
    """The databases that one test takes after another."""
    databases = Databases(postgres, superuser)
    yield databases
    await databases.close()


@pytest.fixture(scope="session")
async def stages(postgres: URL, superuser: asyncpg.Connection) -> AsyncIterator[Databases]:
    """Databases as `databases`, with the tables in which workers of the crash tests count what they do."""
    async with new_database(postgres, superuser=superuser) as template:
        async with connected(template) as owner:
            await owner.execute(TABLES)
        stages = Databases(postgres, superuser, str(template.url.database), has_processes=True)
        yield stages
        await stages.close()


@pytest.fixture(scope="session")
async def given(postgres: URL) -> AsyncIterator[GivenTables]:
    """Databases of one login that is no superuser, over TCP, with all tables."""
    async with given_tables(postgres) as given:
        yield given


@pytest.fixture(scope="session")
async def cell_databases(postgres: URL, superuser: asyncpg.Connection) -> AsyncIterator[dict[str, Databases]]:
    """Databases as `databases`, for each cell with the numbers that it gives out: to make those takes 150 ms a test."""
    async with AsyncExitStack() as closing:
        databases = {}
        for number, name in enumerate(("a", "b")):
            template = await closing.enter_async_context(new_database(postgres, superuser=superuser))
            await run_as_owner(template, f"SELECT parley_number_cell({number}, '{name}')")
            databases[name] = Databases(postgres, superuser, str(template.url.database), has_processes=True)
            closing.push_async_callback(databases[name].close)
        yield databases


@pytest.fixture
async def address(databases: Databases) -> AsyncIterator[Address]:
    """A database with all tables, and with nothing that another test has left."""
    async with databases.one() as address:
        yield address


@pytest.fixture
async def new_address(postgres: URL, superuser: asyncpg.Connection) -> AsyncIterator[Address]:
    """A database that no test had before, and to which nobody but the test is connected."""
    async with new_database(postgres, superuser=superuser) as new_address:
        yield new_address


@pytest.fixture
async def owner(address: Address) -> AsyncIterator[asyncpg.Connection]:
    """A connection of the database's owner, whom row-level security does not restrict."""
    async with connected(address) as owner:
        yield owner


@asynccontextmanager
async def new_database(
    postgres: URL, *, template: str | None = "template_parley", superuser: asyncpg.Connection | None = None
) -> AsyncIterator[Address]:
    """Make a database for the block: a copy of one to which nobody is connected, with all tables, or an empty one."""
    name = f"test_{uuid4().hex}"
    # Copying files costs less than half of writing the copy to the log first; this server needs no log.
    tables = "" if template is None else f"TEMPLATE {template} STRATEGY FILE_COPY"
    async with nullcontext(superuser) if superuser else connected(Address(postgres, is_embedded=True)) as connection:
        await connection.execute(f"CREATE DATABASE {name} {tables}")
        try:
            yield Address(postgres.set(database=name), is_embedded=True)
        finally:
            await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
async def database(address: Address) -> AsyncIterator[Database]:
    """The connection pool on a fresh database."""
    database = Database(address)
    yield database
    await database.close()


@pytest.fixture(scope="session")
def loaded() -> None:
    """Import litellm, which takes seconds, before the first answer is timed, and spare it garbage collection."""
    import_litellm()
    # As the program does when it has started: half a million objects are never freed.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


@pytest.fixture
async def model(loaded: None) -> AsyncIterator[OpenAIStub]:
    """The strict stand-in for a provider's API, scripted by the test."""
    async with OpenAIStub() as stub:
        yield stub


@pytest.fixture
def unrefused(model: OpenAIStub) -> Iterator[None]:
    """The test fails if a request was sent that the real API refuses."""
    yield
    assert model.refusals == []


@pytest.fixture
def settings(request: pytest.FixtureRequest, model: OpenAIStub, tmp_path: Path) -> Settings:
    """Settings with the stand-in as the model, and with the values that the mark `settings` names."""
    settings = Settings(
        parley_home=tmp_path,
        llm_models=("openai/stub",),
        openai_base_url=model.base_url,
        openai_api_key=SecretStr("sk-test"),
        # So little that a test can use it up.
        default_guest_token_budget=5000,
    )
    mark = request.node.get_closest_marker("settings")
    return settings if mark is None else settings.model_copy(update=mark.kwargs)


@pytest.fixture
async def parley(settings: Settings, address: Address, model: OpenAIStub) -> AsyncIterator[Parley]:
    """A running Parley with a worker, the stand-in as its model and a fake platform."""
    async with open_parley(settings, address, model) as parley:
        yield parley
