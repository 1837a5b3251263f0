"""What models cost: by the installation's own prices, else by litellm's list; None where neither knows."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from agent.llm.audio import SpeechRequest, TranscriptionRequest
from agent.llm.drawing import DrawingRequest
from agent.llm.prices import MILLION, Prices
from shared.messages import COST_DIGITS, Usage


class Pricing:
    """Prices in US dollars. `known` returns litellm's entry of a model, which is empty before litellm is loaded."""

    def __init__(self, own: Prices, known: Callable[[str], Mapping[str, Any]]) -> None:
        self._own, self._known = own, known
        self._litellm: Any = None
        self._faults: tuple[type[Exception], ...] = ()
        self._unpriced: set[str] = set()

    def use(self, litellm: Any, faults: tuple[type[Exception], ...]) -> None:
        """Use litellm, which is loaded now; `faults` are what it raises."""
        self._litellm, self._faults = litellm, faults

    def both(self, name: str) -> float:
        """Return the price of a token of the prompt and one of the answer together; infinite if it is unknown."""
        own = self._own.find(name)
        if own is not None:
            return (own.input + own.output) / MILLION
        return sum(prices) if (prices := self._list(name)) else math.inf

    def highest(self, name: str) -> float | None:
        """Return the price of the dearest kind of token."""
        own = self._own.find(name)
        return own.highest if own is not None else max(self._list(name), default=None)

    def _list(self, name: str) -> list[float]:
        known = self._known(name)
        prices = known.get("input_cost_per_token"), known.get("output_cost_per_token")
        return [float(each) for each in prices if each is not None]

    def priced(self, name: str, model: str, usage: Usage, **media: Any) -> Usage:
        """Return the usage with its cost; `model` is litellm's name, `media` what is paid for besides tokens."""
        own = self._own.find(name)
        if own is not None:
            return replace(usage, cost=own.cost_of(usage))
        if model in self._unpriced:
            return usage
        try:
            prices = self._litellm.cost_per_token(
                model=model,
                prompt_tokens=usage.input_tokens,
                completion_tokens=usage.output_tokens,
                cache_read_input_tokens=usage.cached_tokens,
                **media,
            )
        except (self._litellm.exceptions.ModelNotMappedError, *self._faults):
            self._unpriced.add(model)
            return usage
        return replace(usage, cost=round(sum(prices), COST_DIGITS))

    def of_media(self, request: TranscriptionRequest | SpeechRequest, model: str, usage: Usage) -> float | None:
        """Return the price of a recording or of speech, by its length where litellm says so."""
        own = self._own.find(request.model)
        if own is not None:
            return own.cost_of(usage)
        return self.priced(request.model, model, Usage(), **request.paid_for).cost or None

    def of_image(self, request: DrawingRequest, model: str, answer: Any) -> float | None:
        """Return the price of an image; without the provider's `answer`, of one by its size."""
        own = self._own.find(request.model)
        if own is not None:
            usage = request.estimated if answer is None else request.to_usage(answer.usage, None)
            return own.cost_of(usage) if own.image is None else own.image
        response = self._litellm.ImageResponse(data=[{}]) if answer is None else answer
        try:
            price = self._litellm.completion_cost(
                completion_response=response, model=model, call_type="image_generation", size=request.size, n=1
            )
        # litellm raises bare exceptions for models whose price it does not know.
        except Exception:  # noqa: BLE001
            return None
        return round(float(price), COST_DIGITS) or None
