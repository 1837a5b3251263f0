"""Tasks that a library leaves behind: all tests of a process run in one event loop, whose end would have ended them."""

import asyncio
from collections.abc import AsyncIterator

import pytest


@pytest.fixture(autouse=True)
async def no_tasks_left() -> AsyncIterator[None]:
    """End the tasks that a test has left: collected later, they would make another test fail."""
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
