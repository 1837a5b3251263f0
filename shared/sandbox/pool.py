"""Lets few confined processes run at once in this worker, and of one person no more than half of them."""

from asyncio import Lock
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import ClassVar

from shared.sandbox.programs import Finished, Program, SandboxMissing, run_program
from shared.sandbox.self_test import find_fault_of_programs
from shared.tasks import FairPool

PROCESSES = 4


class Sandbox:
    """Where all confined processes of a worker are counted, people's code and Parley's parsers alike; one per worker.

    None of them is started while the same task is within `enter`: it would wait for itself. `fault` is what the last
    test of the layers has found.
    """

    # Of the process: what was tested once holds for all.
    _has_passed: ClassVar[bool] = False

    def __init__(self, processes: int = PROCESSES) -> None:
        self._pool = FairPool(processes, max(1, processes // 2))
        self._testing = Lock()
        self.fault: str | None = None

    @asynccontextmanager
    async def enter(self, user_id: int | str) -> AsyncIterator[None]:
        """Wait for a place of this person; the block is the life of one process.

        Raises `SandboxMissing` when attacks get through here, or a layer is missing.
        """
        async with self._pool.enter(str(user_id)):
            if (fault := await self.find_fault()) is not None:
                raise SandboxMissing(fault)
            yield

    async def run(self, user_id: int | str, program: Program, content: bytes) -> Finished:
        """Run a program with `content` as standard input when there is a place; the wait does not count as its time.

        Raises `TimeoutError`, and `SandboxMissing` as `enter` does.
        """
        async with self.enter(user_id):
            return await run_program(program, content)

    async def find_fault(self) -> str | None:
        """Return why nothing from outside can be opened here, None when every attack has failed.

        They are played before the first program, and again as long as one gets through.
        """
        async with self._testing:
            self.fault = None if Sandbox._has_passed else await find_fault_of_programs()
            Sandbox._has_passed = self.fault is None
            return self.fault
