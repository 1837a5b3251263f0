"""What tests of all chat platforms share: a scene with two people, a running Parley and an adapter that listens."""

import asyncio
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

from adapters.base import ChatPlatform
from shared.db.database import Address
from shared.settings import Settings
from tests.standins.openai_api import OpenAIStub
from tests.support.eventually import eventually
from tests.support.parley import Parley, open_parley
from tests.support.source_tree import list_measuring_variables

# Starts the program as its users do.
COMMAND = (sys.executable, "-m", "adapters.cli")

# A process that dies when it has shown the answer to a command, and before it has removed its note.
DIES_BEFORE_ITS_NOTE_IS_REMOVED = """
CREATE RULE dies AS ON DELETE TO outbox DO INSTEAD UPDATE outbox SET claimed_until = now() WHERE id = OLD.id
"""


class Connections(Protocol):
    """A stand-in's connections to those who listen."""

    async def until(self, count: int = 1) -> None: ...
    async def until_gone(self) -> None: ...


@dataclass(kw_only=True)
class ChatScene(ABC):
    """Settings for a platform's stand-in with a channel, and Parley once it is open."""

    settings: Settings
    general: dict[str, Any]
    parley: Parley = field(init=False)

    @property
    @abstractmethod
    def connections(self) -> Connections:
        """Return the stand-in's connections."""

    @abstractmethod
    def build(self, **options: Any) -> ChatPlatform:
        """Return the platform under test, with the stand-in's addresses; `options` are the library's."""

    @asynccontextmanager
    async def opened(
        self, address: Address, model: OpenAIStub, *, listens: bool = True, works: bool = True, **options: Any
    ) -> AsyncIterator[Self]:
        """Open Parley: with an adapter that listens, a worker, or both."""
        platform = self.build(**options)
        async with open_parley(self.settings, address, model, senders={platform.name: platform}, works=works) as parley:
            self.parley = parley
            if not listens:
                yield self
                return
            listening = asyncio.create_task(platform.listen(parley.app))
            try:
                await self.connections.until()
                yield self
            finally:
                await ended(listening)

    @property
    def model(self) -> OpenAIStub:
        return self.parley.model

    async def sql(self, statement: str, **parameters: Any) -> list[Any]:
        return await self.parley.sql(statement, **parameters)

    async def value(self, statement: str, **parameters: Any) -> Any:
        return await self.parley.value(statement, **parameters)

    async def until_value(self, value: Any, statement: str, **parameters: Any) -> None:
        """Return once a query gives this value."""
        rows: list[Any] = []

        async def is_so() -> bool:
            rows[:] = await self.sql(statement, **parameters)
            return bool(rows) and rows[0][0] == value

        with suppress(TimeoutError):
            await eventually(is_so)
        assert [row[0] for row in rows[:1]] == [value]

    def prompt(self, number: int = -1) -> str:
        """Return the last user message that the model was shown."""
        content: str = self.model.requests[number].body["messages"][-1]["content"]
        return content


async def ended(listening: "asyncio.Task[None]") -> None:
    """Cancel an adapter that listens, and wait for its end."""
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)


def child_environment(settings: Settings, address: Address, home: Path) -> dict[str, str]:
    """Return the settings that the processes of one installation share; those of the platform come on top."""
    return {
        "PARLEY_HOME": str(home),
        "DATABASE_URL": address.libpq(as_owner=True),
        "LLM_MODELS": "openai/stub",
        "OPENAI_BASE_URL": settings.openai_base_url or "",
        "OPENAI_API_KEY": "sk-test",
        "SECRET_KEY": "shared",
        **list_measuring_variables(),
    }
