"""Text embeddings through litellm, with a short deadline and a cooldown after a failure."""

import asyncio
from collections.abc import Callable, Sequence
from math import hypot, isfinite
from typing import Any, Protocol

from msgspec import Struct

from shared.clock import Clock
from shared.errors import Unavailable
from shared.http.litellm import close_clients, import_quietly
from shared.log import get_logger
from shared.messages import Usage
from shared.settings import Settings

log = get_logger()
DEADLINE_SECONDS = 3.0
# Without a cooldown, every message would wait for the deadline while the provider is down.
COOLDOWN_SECONDS = 30.0
DIMENSIONS = 512
MAX_DIMENSIONS = 1280
# Providers count tokens, at least four characters each in English; most accept 96 texts in a request.
MAX_TEXTS_PER_REQUEST = 96
MAX_CHARS_PER_REQUEST = 64_000
PARALLEL_REQUESTS = 4
# A provider that names a longer pause is asked again after this time.
MAX_RETRY_SECONDS = 3600.0
# What tells apart a text that is refused from a model that refuses all.
PROBE = "hello"
# What an operator does about a provider's status.
REMEDIES = {
    401: "check the provider's key",
    403: "check what the provider's key allows",
    404: "check EMBEDDING_MODEL",
    400: "check EMBEDDING_MODEL: the provider refuses any text",
}
# Tokens that a model may add to each text to mark its beginning and end.
SPECIAL_TOKENS = 16


class EmbeddingUnavailable(Unavailable):
    """The embedding model can't be reached just now."""

    code = "embedding_unavailable"


class EmbeddingRefused(EmbeddingUnavailable):
    """The embedding model does not accept these texts."""

    code = "embedding_refused"


class RequestLimits(Struct, frozen=True):
    """How large one request may be, and how many may run in parallel."""

    texts: int = MAX_TEXTS_PER_REQUEST
    chars: int = MAX_CHARS_PER_REQUEST
    parallel: int = PARALLEL_REQUESTS


class Embedded(Struct, frozen=True):
    """Unit vectors in the order of the texts, and the usage of the call."""

    vectors: tuple[tuple[float, ...], ...]
    usage: Usage


# Returns the usage of a model, by its name, with its cost in US dollars.
Price = Callable[[str, Usage], Usage]


def at_unknown_price(_model: str, usage: Usage) -> Usage:
    """Return the usage as it is: its cost is unknown."""
    return usage


class Embedder(Protocol):
    """Turns texts into vectors. `model` is stored with each vector: those of two models can't be compared."""

    @property
    def model(self) -> str:
        """Return the model's name."""
        ...

    @property
    def limits(self) -> RequestLimits:
        """Return the limits of a call."""
        ...

    async def embed(self, texts: Sequence[str], *, deadline_seconds: float = DEADLINE_SECONDS) -> Embedded:
        """Return one vector per text; raises `EmbeddingUnavailable`, `EmbeddingRefused` if the texts are at fault.

        Not to be called inside a transaction.
        """
        ...

    async def load(self) -> None:
        """Load what the first call needs, which may take seconds."""
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


class LiteLLMEmbedder:
    """An embedder that calls any provider that litellm supports."""

    limits = RequestLimits()

    def __init__(
        self, settings: Settings, clock: Clock, model: str | None = None, *, price: Price = at_unknown_price
    ) -> None:
        """Use `model`, or that of `EMBEDDING_MODEL`."""
        self._price = price
        self.model = model or settings.embedding_model or ""
        self._base_url = settings.openai_base_url
        self._key = settings.openai_api_key.get_secret_value() if settings.openai_api_key else None
        self._clock = clock
        self._litellm: Any = None
        self._loading = asyncio.Lock()
        self._accepts_dimensions = True
        self._cooldown_until: float | None = None

    async def embed(self, texts: Sequence[str], *, deadline_seconds: float = DEADLINE_SECONDS) -> Embedded:
        """Return one vector per text; raises `EmbeddingUnavailable`, during a cooldown without a call."""
        now = self._clock.monotonic()
        if self._cooldown_until is not None and now < self._cooldown_until:
            raise EmbeddingUnavailable(retry_after=self._cooldown_until - now)
        try:
            async with asyncio.timeout(deadline_seconds):
                embedded = await self._ask(texts)
        except TimeoutError as error:
            if self._litellm is None:
                # The import of litellm takes seconds; its time must not start a cooldown of the provider.
                raise EmbeddingUnavailable from error
            raise self._start_cooldown(f"no answer within {deadline_seconds:g} s") from error
        except EmbeddingRefused:
            raise
        except EmbeddingUnavailable as error:
            raise self._start_cooldown(str(error), error.retry_after) from error
        self._cooldown_until = None
        return embedded

    async def aclose(self) -> None:
        """Close the connections that litellm keeps."""
        if self._litellm is not None:
            await close_clients(self._litellm)

    def _start_cooldown(self, cause: str, seconds: float | None = None) -> EmbeddingUnavailable:
        seconds = min(seconds or COOLDOWN_SECONDS, MAX_RETRY_SECONDS)
        if self._cooldown_until is None:
            log.warning("embedding_failed", model=self.model, cause=cause, retry_seconds=round(seconds))
        self._cooldown_until = self._clock.monotonic() + seconds
        return EmbeddingUnavailable(retry_after=seconds)

    async def _ask(self, texts: Sequence[str]) -> Embedded:
        try:
            await self.load()
        except (ImportError, OSError, RuntimeError, ValueError, AttributeError) as error:
            # An import that failed is tried again by the next call.
            log.exception("embedder_not_loaded", model=self.model)
            raise EmbeddingUnavailable(type(error).__name__) from error
        import httpx
        from litellm.exceptions import BadRequestError
        from openai import OpenAIError

        try:
            try:
                answer = await self._call(texts)
            except BadRequestError:
                answer = await self._call_differently(texts)
            return self._read(answer, texts)
        except ValueError as error:
            # `_read` says what is wrong with the answer.
            raise EmbeddingUnavailable(str(error)) from error
        except (OpenAIError, httpx.HTTPError, LookupError, TypeError, AttributeError) as error:
            # A malformed answer raises whatever litellm runs into.
            headers = getattr(error, "litellm_response_headers", None) or {}
            pause = str(headers.get("retry-after", ""))
            # A date instead of seconds is rare; then the cooldown counts.
            seconds = float(pause) if pause.replace(".", "", 1).isdecimal() else None
            # Never the error's own text: a provider may repeat the key or the message in it.
            name, status = type(error).__name__, getattr(error, "status_code", None)
            remedy = REMEDIES.get(status or 0)
            raise EmbeddingUnavailable(f"{name}: {remedy}" if remedy else name, retry_after=seconds) from error

    async def _call_differently(self, texts: Sequence[str]) -> Any:
        from litellm.exceptions import BadRequestError

        if self._accepts_dimensions:
            try:
                answer = await self._call(texts, size={})
            except BadRequestError:
                pass
            else:
                # Some servers reject the parameter, because their model has only one size.
                self._accepts_dimensions = False
                return answer
        # Raises the model's error again if even this is refused: then it is not about the texts.
        await self._call([PROBE])
        raise EmbeddingRefused

    async def _call(self, texts: Sequence[str], size: dict[str, int] | None = None) -> Any:
        if size is None:
            size = {"dimensions": DIMENSIONS} if self._accepts_dimensions else {}
        bare = self.model.removeprefix("openai/")
        is_openai = bare != self.model
        if not is_openai:
            try:
                is_openai = str(self._litellm.get_llm_provider(self.model)[1]) == "openai"
            except self._litellm.exceptions.BadRequestError:
                # litellm does not know the name, so it must be a model of the server in OPENAI_BASE_URL.
                is_openai = self._base_url is not None and "/" not in bare
        model = {"model": self.model}
        if is_openai and self._base_url is None:
            model = {"model": f"openai/{bare}", **({"api_key": self._key} if self._key else {})}
        elif is_openai and self._base_url is not None:
            # litellm's lightest client for the protocol.
            model = {"model": f"hosted_vllm/{bare}", "api_base": self._base_url, "api_key": self._key or "none"}
        return await self._litellm.aembedding(
            **model, **size, input=list(texts), drop_params=True, num_retries=0, max_retries=0
        )

    async def load(self) -> None:
        """Import litellm in a thread, once."""
        async with self._loading:
            if self._litellm is None:
                self._litellm = await asyncio.to_thread(import_quietly)

    def _read(self, answer: Any, texts: Sequence[str]) -> Embedded:
        rows = sorted(answer.data, key=lambda row: row["index"])
        if len(rows) != len(texts):
            raise ValueError(f"it answered {len(rows)} vectors for {len(texts)} texts")
        vectors = tuple(unit_vector(row["embedding"]) for row in rows)
        reported = int(answer.usage.prompt_tokens or answer.usage.total_tokens or 0) if answer.usage else 0
        # Some servers report wrong numbers. A token has at least one byte, which gives the upper bound.
        tokens = min(max(0, reported), sum(len(text.encode(errors="replace")) + SPECIAL_TOKENS for text in texts))
        return Embedded(vectors, self._price(self.model, Usage(input_tokens=tokens)))


def unit_vector(numbers: Sequence[float]) -> tuple[float, ...]:
    """Return the vector at length one, so that half precision can hold it; raises `ValueError` for an unusable one."""
    if not 0 < len(numbers) <= MAX_DIMENSIONS:
        raise ValueError(f"its vectors have {len(numbers)} dimensions; choose a model with 1 to {MAX_DIMENSIONS}")
    length = hypot(*numbers)
    if not isfinite(length) or length == 0:
        raise ValueError("it answered a vector with NaN, infinity or nothing but zeros")
    return tuple([number / length for number in numbers])
