"""What the tests of a process share because it takes long to start."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, TypeVar

T = TypeVar("T")


class Shared(AsyncExitStack):
    """Opens a thing when the first test asks for it, and closes all at the end."""

    def __init__(self) -> None:
        super().__init__()
        self._things: dict[object, Any] = {}
        self._opening = asyncio.Lock()

    async def get(self, open_: Callable[[], AbstractAsyncContextManager[T]]) -> T:
        """Return the thing that this opens."""
        async with self._opening:
            if open_ not in self._things:
                self._things[open_] = await self.enter_async_context(open_())
            thing: T = self._things[open_]
            return thing
