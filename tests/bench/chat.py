"""What the benches of the chat platforms share: an adapter that listens, workers, and a model that takes its time."""

import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from tests.bench.children import memory_mb, model_environment, running_child
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.chat_scene import COMMAND

CHANNELS = 50
MODEL_SECONDS = 0.5
WORKERS = 2
LOOP = 3_000_000


def loop_ms() -> float:
    """Return the milliseconds of a fixed loop: a machine that shares its processors is not always equally fast."""
    began = time.perf_counter()
    sum(range(LOOP))
    return (time.perf_counter() - began) * 1000


@asynccontextmanager
async def listening(
    name: str, own: Mapping[str, str], connected: Callable[[], Awaitable[None]], *, workers: int, log: Path | None
) -> AsyncIterator[Callable[[], float]]:
    """Start the processes with the platform's `own` settings; yield what measures the adapter's megabytes.

    What they log is kept only in the file `log`, if one is given.
    """
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="parley-bench-", ignore_cleanup_errors=True))
        model = await stack.enter_async_context(OpenAIStub())
        model.play(lambda _body, _number: Answer("Here is your answer.", delay=MODEL_SECONDS))
        env = {**model_environment(model, Path(folder)), **own, "DEFAULT_GUEST_TOKEN_BUDGET": "100000000"}
        log = log or Path(folder, "log")
        adapter = await stack.enter_async_context(running_child(*COMMAND, "adapter", name, env=env, errors=log))
        await connected()
        for _ in range(workers):
            await stack.enter_async_context(running_child(*COMMAND, "worker", env=env, errors=log))
        yield lambda: memory_mb(adapter.pid)
