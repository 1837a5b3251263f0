"""The embedder of `EMBEDDING_MODEL`, and those of earlier models, whose vectors answer until the new ones are there."""

from shared.clock import Clock
from shared.environments import find_python
from shared.errors import ConfigurationError
from shared.memory.embeddings import Embedder, LiteLLMEmbedder, Price, at_unknown_price
from shared.memory.local.embedder import REMEDY, LocalEmbedder
from shared.settings import LOCAL_EMBEDDING_MODELS, Settings


class Embedders:
    """All embedders of a process, by the name of their model; `current` is None when `EMBEDDING_MODEL` is not set."""

    def __init__(
        self, settings: Settings, clock: Clock, current: Embedder | None = None, *, price: Price = at_unknown_price
    ) -> None:
        self._price = price
        self._settings = settings
        self._clock = clock
        self._opened: dict[str, Embedder] = {}
        self.current = current
        if current is None and settings.embedding_model is not None:
            self.current = self._open(settings.embedding_model)
        if self.current is not None:
            self._opened[self.current.model] = self.current

    def of(self, model: str) -> Embedder:
        """Return the embedder of this model, opened with the settings of today."""
        if model not in self._opened:
            self._opened[model] = self._open(model)
        return self._opened[model]

    async def aclose(self) -> None:
        """Close all connections."""
        for embedder in self._opened.values():
            await embedder.aclose()

    def _open(self, model: str) -> Embedder:
        if model in LOCAL_EMBEDDING_MODELS:
            return LocalEmbedder(model, self._clock)
        return LiteLLMEmbedder(self._settings, self._clock, model, price=self._price)


def explain_recall(settings: Settings) -> str:
    """Return in one line by what memories are found; raises `ConfigurationError` with the remedy if it can't be."""
    model = settings.embedding_model
    if model is None:
        return "by words"
    if model not in LOCAL_EMBEDDING_MODELS:
        return f"by meaning ({model})"
    if find_python(LOCAL_EMBEDDING_MODELS[model]) is None:
        raise ConfigurationError(f"by words only: the weights of {model} are missing; {REMEDY}.")
    return "by meaning (local model)"
