"""The embedder of `EMBEDDING_MODEL=local`: asks the program that holds the model, and starts it again if it ended."""

import asyncio
import json
import struct
import sys
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from shared.clock import Clock
from shared.environments import find_python
from shared.log import get_logger
from shared.memory.embeddings import (
    COOLDOWN_SECONDS,
    DEADLINE_SECONDS,
    Embedded,
    EmbeddingUnavailable,
    RequestLimits,
)
from shared.messages import Usage
from shared.processes.ending import kill, write_to
from shared.settings import LOCAL_EMBEDDING_MODELS

PROGRAM = Path(__file__).with_name("program.py")
REMEDY = "install it: `make embeddings` in Parley's folder, elsewhere Parley's extra `embeddings`"
# A question waits for one request of the background work at most: small ones take less than 0.2 s.
MAX_CHARS_PER_REQUEST = 8000
MAX_TEXTS_PER_REQUEST = 64
LOAD_SECONDS = 60.0
# Without a text for so long, the program ends and frees its memory.
IDLE_SECONDS = 600.0
HEADER = struct.Struct("<II")

log = get_logger()

Vectors = tuple[tuple[float, ...], ...]


class LocalEmbedder:
    """An embedder on this machine, without any account or network; texts are cut into small requests.

    Nothing waits for the model to load: until then, and for a while after the program ended, `EmbeddingUnavailable` is
    raised at once.
    """

    limits = RequestLimits(texts=MAX_TEXTS_PER_REQUEST, chars=8 * MAX_CHARS_PER_REQUEST, parallel=1)

    def __init__(self, model: str, clock: Clock, *, idle_seconds: float = IDLE_SECONDS) -> None:
        self.model = model
        self._idle_seconds = idle_seconds
        self._idle: asyncio.TimerHandle | None = None
        self._is_ending = False
        self._clock = clock
        self._process: asyncio.subprocess.Process | None = None
        self._answers: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[None] | None = None
        self._waiting: deque[asyncio.Future[Vectors]] = deque()
        self._cooldown_until = -COOLDOWN_SECONDS

    async def embed(self, texts: Sequence[str], *, deadline_seconds: float = DEADLINE_SECONDS) -> Embedded:
        """Return one vector per text; raises `EmbeddingUnavailable` at once while the model is not loaded."""
        self._start()
        if not self._is_running():
            raise EmbeddingUnavailable
        vectors: list[tuple[float, ...]] = []
        try:
            async with asyncio.timeout(deadline_seconds):
                for request in _split(texts):
                    vectors += await self._ask(request)
        except TimeoutError as error:
            raise EmbeddingUnavailable from error
        return Embedded(tuple(vectors), Usage(cost=0.0))

    async def load(self) -> None:
        """Start the program and wait until it has loaded the model; a failure is logged."""
        self._start()
        if self._starting is not None:
            await asyncio.shield(self._starting)

    async def aclose(self) -> None:
        """End the program."""
        if self._idle is not None:
            self._idle.cancel()
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        await self._end_program()

    def _start(self) -> None:
        is_starting = self._starting is not None and not self._starting.done()
        if not self._is_running() and not is_starting and self._clock.monotonic() >= self._cooldown_until:
            self._starting = asyncio.create_task(self._start_program())

    def _is_running(self) -> bool:
        # A program that was told to end takes no more texts, although its last answers may still be read.
        return self._answers is not None and not self._answers.done() and not self._is_ending

    async def _start_program(self) -> None:
        self._cooldown_until = self._clock.monotonic() + COOLDOWN_SECONDS
        python = find_python(LOCAL_EMBEDDING_MODELS[self.model])
        if python is None:
            self._cooldown_until = float("inf")
            log.warning("local_embedder_missing", model=self.model, remedy=REMEDY)
            return
        await self._end_program()
        self._process = await asyncio.create_subprocess_exec(
            python,
            # The folder of the program is no place to import from.
            "-P",
            str(PROGRAM),
            # One thread, and one core for the turns.
            env={"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(LOAD_SECONDS):
                await _read_answer(self._process)
        except (TimeoutError, asyncio.IncompleteReadError):
            log.warning("local_embedder_failed", model=self.model, cause="the model could not be loaded", remedy=REMEDY)
            await self._end_program()
            return
        self._is_ending = False
        self._answers = asyncio.create_task(self._read_answers(self._process))
        self._watch_idleness()

    async def _ask(self, texts: Sequence[str]) -> Vectors:
        process = self._process
        if process is None or process.stdin is None or not self._is_running():
            raise EmbeddingUnavailable
        answer: asyncio.Future[Vectors] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        self._watch_idleness()
        await write_to(process, json.dumps(texts).encode() + b"\n")
        return await answer

    def _watch_idleness(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(self._idle_seconds, self._end_idle_program)

    def _end_idle_program(self) -> None:
        if self._waiting:
            self._watch_idleness()
        elif self._process is not None and self._process.stdin is not None:
            # The end of its input ends the program; the next text starts another.
            self._is_ending = True
            self._cooldown_until = -COOLDOWN_SECONDS
            self._process.stdin.close()

    async def _read_answers(self, process: asyncio.subprocess.Process) -> None:
        # The program answers in the order of the requests; a caller that gave up is skipped.
        try:
            while True:
                vectors = await _read_answer(process)
                answer = self._waiting.popleft()
                if not answer.done():
                    answer.set_result(vectors)
        except asyncio.IncompleteReadError:
            if not self._is_ending:
                log.warning("local_embedder_failed", model=self.model, cause="its program ended; it is started again")
        finally:
            while self._waiting:
                answer = self._waiting.popleft()
                if not answer.done():
                    answer.set_exception(EmbeddingUnavailable())

    async def _end_program(self) -> None:
        if self._answers is not None:
            # Whoever still waits for the program fails now, and nobody who waits for the next one.
            self._answers.cancel()
            await asyncio.gather(self._answers, return_exceptions=True)
        process, self._process = self._process, None
        if process is not None:
            await kill(process)


async def _read_answer(process: asyncio.subprocess.Process) -> Vectors:
    assert process.stdout is not None  # noqa: S101 - it was started with a pipe
    count, dimensions = HEADER.unpack(await process.stdout.readexactly(HEADER.size))
    numbers = array("f", await process.stdout.readexactly(4 * count * dimensions))
    if sys.byteorder == "big":
        numbers.byteswap()
    return tuple(tuple(numbers[start : start + dimensions]) for start in range(0, len(numbers), dimensions or 1))


def _split(texts: Sequence[str]) -> Iterator[list[str]]:
    request: list[str] = []
    for text in texts:
        if request and (
            len(request) == MAX_TEXTS_PER_REQUEST or sum(map(len, request)) + len(text) > MAX_CHARS_PER_REQUEST
        ):
            yield request
            request = []
        # A lone surrogate is no text that can be encoded.
        request.append(text.encode(errors="replace").decode())
    if request:
        yield request
