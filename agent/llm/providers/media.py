"""Images and sound: models that draw, transcribe and speak, by their litellm name."""

import asyncio
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from agent.llm.completions import Cause, RejectedCall, RouteFailed
from agent.llm.media_requests import DrawingRequest, SpeechRequest, TranscriptionRequest
from agent.llm.providers.client import Providers
from agent.llm.providers.errors import may_be_billed, to_failure
from shared.clock import Clock
from shared.messages import EstimatedUsage, Usage
from shared.text import clean

MEDIA_SECONDS = 120.0

MediaRequest = DrawingRequest | TranscriptionRequest | SpeechRequest


class Media:
    """Calls models for images and sound; every call names its model, and there is no other to fall back to."""

    def __init__(self, providers: Providers, clock: Clock) -> None:
        self._providers, self._clock = providers, clock

    async def cost(self, request: MediaRequest) -> float | None:
        """Return an upper estimate of a request in US dollars; None if its price is unknown."""
        await self._providers.load()
        model = self._providers.litellm_name(request.model)
        if isinstance(request, DrawingRequest):
            price = self._providers.pricing.of_image(request, model, None)
        else:
            price = self._providers.pricing.of_media(request, model, request.estimated)
        by_token = self._providers.pricing.highest(request.model)
        return price if price is not None or by_token is None else by_token * request.tokens

    async def draw(self, request: DrawingRequest, *, deadline: float, spent: list[RejectedCall]) -> bytes | str:
        """Return an image, or the URL where the provider has put it; `spent` gets the call that is to be paid.

        Raises `ToolError` if the model refuses the request, `Unavailable` if it does not answer.
        """
        with _billing(request, spent):
            answer = await self._make(
                "aimage_generation", request, deadline=deadline, prompt=request.prompt, size=request.size, n=1
            )
            image = answer.data[0] if answer.data else None
            drawing: bytes | str | None = None
            if image is not None:
                drawing = b64decode(image.b64_json) if image.b64_json else image.url
            if not drawing:
                raise RouteFailed(Cause.EMPTY, usage=request.to_usage(answer.usage, None))
            price = self._providers.pricing.of_image(request, self._providers.litellm_name(request.model), answer)
            usage = request.to_usage(answer.usage, price)
        spent.append(RejectedCall(request.model, usage))
        return drawing

    async def transcribe(self, request: TranscriptionRequest, *, deadline: float, spent: list[RejectedCall]) -> str:
        """Return what is said in a recording; otherwise as `draw`."""
        file = (request.filename, request.content)
        with _billing(request, spent):
            answer = await self._make("atranscription", request, deadline=deadline, file=file, response_format="json")
            usage = request.to_usage(getattr(answer, "usage", None))
            # Models that are paid by the minute cost nothing by their tokens.
            cost = None if isinstance(usage, EstimatedUsage) else self._providers.priced(request.model, usage).cost
            usage = replace(usage, cost=cost or self._price(request, usage))
            text = clean(answer.text or "").strip()
        spent.append(RejectedCall(request.model, usage))
        return text

    async def speak(self, request: SpeechRequest, *, deadline: float, spent: list[RejectedCall]) -> bytes:
        """Return a spoken text as MP3; otherwise as `draw`."""
        with _billing(request, spent):
            answer = await self._make(
                "aspeech", request, deadline=deadline, input=request.text, voice=request.voice, response_format="mp3"
            )
            usage = replace(request.estimated, cost=self._price(request, request.estimated))
            speech: bytes = answer.content
        spent.append(RejectedCall(request.model, usage))
        return speech

    async def _make(self, operation: str, request: MediaRequest, *, deadline: float, **parameters: Any) -> Any:
        seconds = max(1.0, min(MEDIA_SECONDS, deadline - self._clock.monotonic()))
        await self._providers.load()
        target = self._providers.target(request.model)
        if operation == "aimage_generation" and "gpt-image" not in target["model"]:
            # The other models answer with URLs unless they are asked for the content.
            target["response_format"] = "b64_json"
        try:
            call = getattr(self._providers.library.litellm, operation)
            return await call(**target, **parameters, timeout=seconds, max_retries=0)
        except self._providers.library.faults as error:
            failure = to_failure(error, self._clock)
            if may_be_billed(error):
                failure.usage = request.estimated
            raise failure from None

    def _price(self, request: TranscriptionRequest | SpeechRequest, usage: Usage) -> float | None:
        return self._providers.pricing.of_media(request, self._providers.litellm_name(request.model), usage)


@contextmanager
def _billing(request: MediaRequest, spent: list[RejectedCall]) -> Iterator[None]:
    # Notes what is to be paid for a request that gives nothing.
    try:
        yield
    except RouteFailed as failure:
        if failure.usage is not None:
            spent.append(RejectedCall(request.model, failure.usage))
        raise request.to_error(failure) from None
    except asyncio.CancelledError:
        # The provider may go on and bill it all the same.
        spent.append(RejectedCall(request.model, request.estimated))
        raise
