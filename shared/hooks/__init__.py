"""What a module may do besides tools: answer HTTP requests (`@route`), and work in the background (`@tick`).

Both run without a person: a route finds out by itself who asks, for instance by a credential that it has given out.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from shared.messages import Place
from shared.schedules.jobs import JobLimits, JobsOfUser, Origin

# What a context holds, as in shared/tools.py.
if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

    from shared.clock import Clock
    from shared.db.database import Database
    from shared.http.client import GuardedClient
    from shared.settings import Settings

ModuleSettings = TypeVar("ModuleSettings")
MAX_BODY_BYTES = 1024 * 1024
LEAST_TICK_SECONDS = 1.0


class ModuleContext(Struct, frozen=True):
    """What a route or a tick of a module can use."""

    module: str
    clock: "Clock"
    http: "GuardedClient"
    database: "Database"
    app_settings: "Settings"

    def transaction(self) -> "AbstractAsyncContextManager[AsyncSession]":
        """Open a transaction; never wait for the network inside it."""
        return self.database.transaction()

    def settings(self, kind: type[ModuleSettings]) -> ModuleSettings:
        """Return this module's settings: `kind` is a frozen dataclass, read from variables with the module's prefix."""
        return self.app_settings.of_module(kind, self.module)

    def jobs_of(self, user_id: int, place: Place, *, conversation_id: int, origin: Origin) -> JobsOfUser:
        """Return the scheduled jobs of a person, to make one that speaks in this conversation."""
        limits = JobLimits.of(self.app_settings)
        return JobsOfUser(
            self.database,
            self.clock,
            limits,
            user_id=user_id,
            place=place,
            conversation_id=conversation_id,
            origin=origin,
        )


class HttpRequest(Struct, frozen=True):
    """A request to a module's route; header names are in lower case, the body has at most 1 MB."""

    method: str
    path: str
    headers: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes = b""


class HttpResponse(Struct, frozen=True):
    """The answer of a module's route."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Answer = Callable[[ModuleContext, HttpRequest], Awaitable[HttpResponse]]
Work = Callable[[ModuleContext], Awaitable[object]]


class ModuleRoute(Struct, frozen=True):
    """An address of a module: `/modules/<module>/<path>`."""

    answer: Answer
    path: str
    methods: frozenset[str]
    module: str = ""

    def of_module(self, module: str) -> "ModuleRoute":
        """Return the route with the name that its module has."""
        return replace(self, module=module)


class ModuleTick(Struct, frozen=True):
    """Background work of a module, every `seconds`."""

    work: Work
    seconds: float
    module: str = ""

    @property
    def name(self) -> str:
        """Return `module.tick`, for the log."""
        return f"{self.module}.{getattr(self.work, '__name__', 'tick')}"

    def of_module(self, module: str) -> "ModuleTick":
        """Return the tick with the name that its module has."""
        return replace(self, module=module)


def route(path: str, *, methods: tuple[str, ...] = ("POST",)) -> Callable[[Answer], ModuleRoute]:
    """Make an async function in a module's `__init__.py` answer requests to `/modules/<module>/<path>`."""

    def decorate(answer: Answer) -> ModuleRoute:
        if not inspect.iscoroutinefunction(answer):
            raise TypeError(f"{path}: a route is an async function")
        return ModuleRoute(answer, path.strip("/"), frozenset(methods))

    return decorate


def tick(*, seconds: float) -> Callable[[Work], ModuleTick]:
    """Make an async function in a module's `__init__.py` run every `seconds` in every worker.

    Several workers run it at the same time: claim rows with `FOR UPDATE SKIP LOCKED`.
    """

    def decorate(work: Work) -> ModuleTick:
        if not inspect.iscoroutinefunction(work) or seconds < LEAST_TICK_SECONDS:
            raise TypeError(f"a tick is an async function that runs at most every {LEAST_TICK_SECONDS:g} s")
        return ModuleTick(work, seconds)

    return decorate
