"""Images and sound: models that draw, transcribe and speak, by their litellm name."""

import asyncio
from base64 import b64decode
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

from agent.llm.completions import Cause, RejectedCall, RouteFailed
from agent.llm.media_requests import DrawingRequest, SpeechRequest, TranscriptionRequest
from agent.llm.providers.client import Providers
from agent.llm.providers.errors import may_be_billed, to_failure
from shared.clock import Clock
from shared.messages import EstimatedUsage, Usage
from shared.text import clean

MEDIA_SECONDS = 120.0

MediaRequest = DrawingRequest | TranscriptionRequest | SpeechRequest
Made = TypeVar("Made")
Request = TypeVar("Request", DrawingRequest, TranscriptionRequest, SpeechRequest)


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
        return await self._ask_once(self._draw, request, deadline=deadline, spent=spent)

    async def transcribe(self, request: TranscriptionRequest, *, deadline: float, spent: list[RejectedCall]) -> str:
        """Return what is said in a recording; otherwise as `draw`."""
        return await self._ask_once(self._transcribe, request, deadline=deadline, spent=spent)

    async def speak(self, request: SpeechRequest, *, deadline: float, spent: list[RejectedCall]) -> bytes:
        """Return a spoken text as MP3; otherwise as `draw`."""
        return await self._ask_once(self._speak, request, deadline=deadline, spent=spent)

    async def _ask_once(
        self,
        ask: Callable[[Request, float], Awaitable[tuple[Made, Usage]]],
        request: Request,
        *,
        deadline: float,
        spent: list[RejectedCall],
    ) -> Made:
        seconds = max(1.0, min(MEDIA_SECONDS, deadline - self._clock.monotonic()))
        try:
            output, usage = await ask(request, seconds)
        except RouteFailed as failure:
            if failure.usage is not None:
                spent.append(RejectedCall(request.model, failure.usage))
            raise request.to_error(failure) from None
        except asyncio.CancelledError:
            # The provider may go on and bill it all the same.
            spent.append(RejectedCall(request.model, request.estimated))
            raise
        spent.append(RejectedCall(request.model, usage))
        return output

    async def _make(self, operation: str, request: MediaRequest, **parameters: Any) -> Any:
        await self._providers.load()
        target = self._providers.target(request.model)
        if operation == "aimage_generation" and "gpt-image" not in target["model"]:
            # The other models answer with URLs unless they are asked for the content.
            target["response_format"] = "b64_json"
        try:
            return await getattr(self._providers.library.litellm, operation)(**target, **parameters, max_retries=0)
        except self._providers.library.faults as error:
            failure = to_failure(error, self._clock)
            if may_be_billed(error):
                failure.usage = request.estimated
            raise failure from None

    async def _transcribe(self, request: TranscriptionRequest, seconds: float) -> tuple[str, Usage]:
        file = (request.filename, request.content)
        answer = await self._make("atranscription", request, file=file, response_format="json", timeout=seconds)
        usage = request.to_usage(getattr(answer, "usage", None))
        # Models that are paid by the minute cost nothing by their tokens.
        cost = None if isinstance(usage, EstimatedUsage) else self._providers.priced(request.model, usage).cost
        cost = cost or self._price(request, usage)
        return clean(answer.text or "").strip(), replace(usage, cost=cost)

    async def _speak(self, request: SpeechRequest, seconds: float) -> tuple[bytes, Usage]:
        answer = await self._make(
            "aspeech", request, input=request.text, voice=request.voice, response_format="mp3", timeout=seconds
        )
        return answer.content, replace(request.estimated, cost=self._price(request, request.estimated))

    async def _draw(self, request: DrawingRequest, seconds: float) -> tuple[bytes | str, Usage]:
        answer = await self._make(
            "aimage_generation", request, prompt=request.prompt, size=request.size, n=1, timeout=seconds
        )
        image = answer.data[0] if answer.data else None
        drawing = b64decode(image.b64_json) if image is not None and image.b64_json else image.url if image else None
        if not drawing:
            raise RouteFailed(Cause.EMPTY, usage=request.to_usage(answer.usage, None))
        model = self._providers.litellm_name(request.model)
        price = self._providers.pricing.of_image(request, model, answer)
        return drawing, request.to_usage(answer.usage, price)

    def _price(self, request: TranscriptionRequest | SpeechRequest, usage: Usage) -> float | None:
        return self._providers.pricing.of_media(request, self._providers.litellm_name(request.model), usage)
