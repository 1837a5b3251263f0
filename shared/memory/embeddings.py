"""Text to vector through litellm, under a short deadline; a provider that fails is left alone for a while."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import Any, Protocol

from shared.clock import Clock
from shared.errors import Unavailable
from shared.log import get_logger
from shared.messages import Usage
from shared.settings import Settings, prepare_litellm_environment

log = get_logger()
DEADLINE_SECONDS = 3.0
# A provider that is down must not cost every message the deadline.
REST_SECONDS = 30.0
DIMENSIONS = 512
MAX_DIMENSIONS = 1280
MARK_TOKENS = 16


class EmbeddingUnavailable(Unavailable):
    """The embedding model can't be reached just now."""

    code = "embedding_unavailable"


@dataclass(frozen=True, slots=True)
class Embedded:
    """Vectors of length one, in the order of the texts, and what they cost."""

    vectors: tuple[tuple[float, ...], ...]
    usage: Usage


class Embedder(Protocol):
    """What turns texts into vectors. `model` stands beside each vector: those of two models are never compared."""

    @property
    def model(self) -> str:
        """Return the model's name."""
        ...

    async def embed(self, texts: Sequence[str], *, deadline_seconds: float = DEADLINE_SECONDS) -> Embedded:
        """Return one vector per text; raises `EmbeddingUnavailable`. Never called inside a transaction."""
        ...

    async def load(self) -> None:
        """Make ready what takes long the first time."""
        ...

    async def aclose(self) -> None:
        """Give back what is held open."""
        ...


def open_embedder(settings: Settings, clock: Clock) -> Embedder | None:
    """Return the embedder that the settings name; None: recall goes by words alone."""
    return LiteLLMEmbedder(settings, clock) if settings.embedding_model else None


class LiteLLMEmbedder:
    """Any provider that litellm knows."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.model = settings.embedding_model or ""
        self._base_url = settings.openai_base_url
        self._key = settings.openai_api_key.get_secret_value() if settings.openai_api_key else None
        self._clock = clock
        self._litellm: Any = None
        self._client: Any = None
        self._loading = asyncio.Lock()
        self._takes_dimensions = True
        self._rests_until: float | None = None

    async def embed(self, texts: Sequence[str], *, deadline_seconds: float = DEADLINE_SECONDS) -> Embedded:
        """Return one vector per text; raises `EmbeddingUnavailable`, at once while the provider is left alone."""
        now = self._clock.monotonic()
        if self._rests_until is not None and now < self._rests_until:
            raise EmbeddingUnavailable
        try:
            async with asyncio.timeout(deadline_seconds):
                embedded = await self._ask(texts)
        except TimeoutError as error:
            if self._litellm is None:
                # Still being imported, which takes seconds: the provider is not to blame.
                raise EmbeddingUnavailable from error
            raise self._rest("no answer in time") from error
        except EmbeddingUnavailable as error:
            raise self._rest(str(error)) from error
        self._rests_until = None
        return embedded

    async def aclose(self) -> None:
        """Close the HTTP client."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    def _rest(self, cause: str) -> EmbeddingUnavailable:
        if self._rests_until is None:
            log.warning("embedding_failed", model=self.model, cause=cause)
        self._rests_until = self._clock.monotonic() + REST_SECONDS
        return EmbeddingUnavailable()

    async def _ask(self, texts: Sequence[str]) -> Embedded:
        await self.load()
        import httpx
        from litellm._internal_context import is_internal_call
        from litellm.exceptions import BadRequestError
        from openai import OpenAIError

        # Without this litellm leaves tasks of its own logging running behind it.
        is_internal_call.set(True)
        try:
            try:
                answer = await self._call(texts)
            except BadRequestError:
                if not self._takes_dimensions:
                    raise
                # Most models have one size, and some servers refuse to be asked for another.
                self._takes_dimensions = False
                answer = await self._call(texts)
            return self._read(answer, texts)
        except (OpenAIError, httpx.HTTPError, ValueError, LookupError, TypeError, AttributeError) as error:
            # An answer that is no answer ends in whatever error its reader ran into.
            raise EmbeddingUnavailable(type(error).__name__) from error

    async def _call(self, texts: Sequence[str]) -> Any:
        wish = {"dimensions": DIMENSIONS} if self._takes_dimensions else {}
        return await self._litellm.aembedding(
            **self._target(), **wish, input=list(texts), drop_params=True, num_retries=0, max_retries=0
        )

    async def load(self) -> None:
        """Import litellm in a thread, once; its client belongs to this event loop."""
        async with self._loading:
            if self._client is None:
                self._litellm = await asyncio.to_thread(_import_litellm)
                self._client = self._litellm.AsyncHTTPHandler()

    def _target(self) -> dict[str, Any]:
        """Return what leads litellm to the model; OpenAI-compatible servers are reached by its lightest route."""
        bare = self.model.removeprefix("openai/")
        if not self._is_openai(bare):
            return {"model": self.model}
        if self._base_url is None:
            return {"model": f"openai/{bare}", **({"api_key": self._key} if self._key else {})}
        key = self._key or "none"
        return {"model": f"hosted_vllm/{bare}", "api_base": self._base_url, "api_key": key, "client": self._client}

    def _is_openai(self, bare: str) -> bool:
        if bare != self.model:
            return True
        try:
            return str(self._litellm.get_llm_provider(self.model)[1]) == "openai"
        except self._litellm.exceptions.BadRequestError:
            # A name that litellm does not know is one of the server that OPENAI_BASE_URL names.
            return self._base_url is not None and "/" not in bare

    def _read(self, answer: Any, texts: Sequence[str]) -> Embedded:
        rows = sorted(answer.data, key=lambda row: row["index"])
        if len(rows) != len(texts):
            raise ValueError("as many vectors as texts are needed")
        vectors = tuple(_unit(row["embedding"]) for row in rows)
        spent = int(answer.usage.prompt_tokens or answer.usage.total_tokens or 0) if answer.usage else 0
        # A byte is a token at the most, beside what marks the ends of a text: more was not counted.
        tokens = min(max(0, spent), sum(len(each.encode(errors="replace")) + MARK_TOKENS for each in texts))
        return Embedded(vectors, Usage(input_tokens=tokens, cost=self._price(tokens)))

    def _price(self, tokens: int) -> float | None:
        listed = self._litellm.model_cost.get(self.model.removeprefix("openai/")) or {}
        price = listed.get("input_cost_per_token")
        return None if price is None else float(price) * tokens


def _unit(numbers: Sequence[float]) -> tuple[float, ...]:
    """Return the vector at length one, so that half precision holds it; raises `ValueError` when it can't be kept."""
    length = sqrt(sum(number * number for number in numbers))
    if not 0 < len(numbers) <= MAX_DIMENSIONS or not isfinite(length) or length == 0:
        raise ValueError(f"a vector needs 1 to {MAX_DIMENSIONS} dimensions and a length")
    return tuple(number / length for number in numbers)


def _import_litellm() -> Any:
    prepare_litellm_environment()
    import litellm

    litellm.telemetry = False
    litellm.suppress_debug_info = True
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        # Its messages repeat requests and answers, and they bring an output of their own.
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    return litellm
