"""The litellm client: the only module that calls chat completions of providers."""

import asyncio
import logging
import re
import warnings
from base64 import b64decode
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from agent.llm.audio import SpeechRequest, TranscriptionRequest
from agent.llm.completions import NO_TOOL, AttemptState, Cause, Completion, ModelRequest, RouteFailed
from agent.llm.drawing import DrawingRequest
from agent.llm.providers.answers import StreamAccumulator, to_completion, to_tool_calls, to_usage
from agent.llm.providers.errors import may_be_billed, to_failure
from agent.llm.providers.pricing import Prices, Pricing, list_models
from agent.llm.providers.requests import MARKED_MODEL, Form, Forms, to_response_format, with_marks
from agent.llm.tokens import estimate
from agent.llm.vision import fill
from shared.clock import Clock
from shared.messages import EstimatedUsage, Usage
from shared.settings import Settings, prepare_litellm_environment
from shared.text import clean

CONNECT_SECONDS = 10.0
# These models need `max_completion_tokens`, which only litellm's own OpenAI route sends.
REASONING_MODEL = re.compile(r"^(o\d|gpt-5)")

MediaRequest = DrawingRequest | TranscriptionRequest | SpeechRequest

OPENAI_ROUTES = ("hosted_vllm/", "openai/")


@dataclass(frozen=True, slots=True)
class _Library:
    """The parts of litellm that we use, available once it is imported."""

    litellm: Any
    client: Any
    timeout: Any
    is_internal_call: Any
    log: Callable[[str], Any]
    faults: tuple[type[Exception], ...]
    stream_faults: tuple[type[Exception], ...]


# What litellm's log of a call asks for and we have no use for.
EMPTY_LOG: dict[str, Any] = {"messages": [], "stream": False, "litellm_call_id": "", "function_id": "", "kwargs": {}}


def _import_litellm(clock: Clock) -> _Library:
    prepare_litellm_environment()
    import httpx
    import litellm
    from litellm._internal_context import is_internal_call
    from litellm.litellm_core_utils.litellm_logging import Logging
    from litellm.llms.base_llm.chat.transformation import BaseLLMException
    from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler
    from litellm.types.utils import Delta, ModelResponseStream, StreamingChoices
    from openai import OpenAIError

    litellm.telemetry = False
    litellm.suppress_debug_info = True
    litellm.drop_params = True
    litellm.num_retries = 0
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        # litellm logs the text of requests and answers, with handlers of its own.
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)

    class Unpriced(Logging):
        # litellm computes the price twice for its own log, a third of the call's CPU time; we compute it ourselves.
        def response_cost_calculator(self, *_args: object, **_kwargs: object) -> None:
            return None

    def new_log(model: str) -> Unpriced:
        # litellm expects a naive datetime in local time.
        begun = clock.now().astimezone().replace(tzinfo=None)
        return Unpriced(model, call_type="acompletion", start_time=begun, **EMPTY_LOG)

    with warnings.catch_warnings():
        # pydantic builds these models at their first use, with a warning about a type of litellm's.
        warnings.simplefilter("ignore")
        ModelResponseStream(choices=[StreamingChoices(delta=Delta(content=""))])
        is_internal_call.set(True)
        _warm(litellm)
    faults = (OpenAIError, BaseLLMException, httpx.HTTPError)
    # For invalid chunks litellm's parser raises arbitrary errors.
    stream_faults = (*faults, RuntimeError, ValueError, TypeError, LookupError, AttributeError)
    return _Library(
        litellm=litellm,
        client=AsyncHTTPHandler(),
        timeout=httpx.Timeout,
        is_internal_call=is_internal_call,
        log=new_log,
        faults=faults,
        stream_faults=stream_faults,
    )


def _has_failed(loading: asyncio.Task[_Library]) -> bool:
    return loading.done() and (loading.cancelled() or loading.exception() is not None)


def _warm(litellm: Any) -> None:
    """Load what litellm would import in its first call, some 300 modules, on the event loop; no request is sent."""
    message = {"role": "user", "content": "warm"}
    litellm.completion("hosted_vllm/warm", [message], tools=[NO_TOOL], mock_response="warm", api_base="http://[::1]")
    litellm.main.encoding.encode("warm")


class Providers:
    """Calls models by their litellm name."""

    def __init__(self, settings: Settings, clock: Clock, prices: Prices | None = None) -> None:
        self._clock = clock
        self._prices = Prices() if prices is None else prices
        self.pricing = Pricing(self._prices, self._known)
        self._base_url = settings.openai_base_url
        self._key = settings.openai_api_key.get_secret_value() if settings.openai_api_key else None
        self._loading: asyncio.Task[_Library] | None = None
        self._targets: dict[str, dict[str, Any]] = {}
        self._forms = Forms()

    @property
    def _library(self) -> _Library:
        if self._loading is None:
            raise RuntimeError("litellm is loaded before it is used")
        return self._loading.result()

    async def load(self) -> None:
        """Import litellm in a thread, only once, also if several first calls wait for it; a failure is tried again."""
        if self._loading is None or _has_failed(self._loading):
            self._loading = asyncio.create_task(asyncio.to_thread(_import_litellm, self._clock))
        # Shielded, because other callers wait for the same import.
        await asyncio.shield(self._loading)
        if self.pricing.litellm is None:
            self.pricing.use(self._library.litellm, self._library.faults)

    def window(self, name: str) -> int | None:
        """Return the model's context window in tokens; None if litellm does not know it."""
        found = self._known(name).get("max_input_tokens")
        return found if isinstance(found, int) and found > 0 else None

    def sees(self, name: str) -> bool | None:
        """Return whether the model accepts images; None if litellm does not know the model."""
        known = self._known(name)
        return bool(known.get("supports_vision")) if known else None

    def list_models(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return what `pricing.list_models` does; both empty until litellm is loaded."""
        if not self._is_loaded:
            return frozenset(), frozenset()
        return list_models(self._library.litellm, has_own_server=self._base_url is not None)

    @property
    def _is_loaded(self) -> bool:
        return self._loading is not None and self._loading.done() and not _has_failed(self._loading)

    def find_missing(self, name: str) -> tuple[str, ...] | None:
        """Return the variables that the model's provider still needs; None if litellm knows no such provider."""
        try:
            target = self._target(name)
        except RouteFailed:
            return None
        has_key = "api_key" in target
        return () if has_key else tuple(self._library.litellm.validate_environment(target["model"])["missing_keys"])

    def highest_price(self, name: str) -> float | None:
        """Return US dollars for the dearest kind of token of a model; None if it is unknown."""
        is_listed = name in self._prices or bool(self._known(name))
        return self.pricing.highest(name) if is_listed else None

    def _known(self, name: str) -> Mapping[str, Any]:
        if not self._is_loaded:
            return {}
        models = self._library.litellm.model_cost
        bare = name.removeprefix("openai/")
        return models.get(bare) or models.get(bare.partition("/")[2]) or {}

    async def aclose(self) -> None:
        """Close our connections and those that litellm keeps for other providers."""
        if self._loading is not None:
            await asyncio.wait({self._loading})
            if not _has_failed(self._loading):
                await self._library.client.close()
                await self._library.litellm.close_litellm_async_clients()
            self._loading = None

    async def complete(self, name: str, request: ModelRequest, attempt: AttemptState) -> Completion:
        """Call the provider of this model; raises `RouteFailed`."""
        await self.load()
        # litellm then skips its own logging and billing, which take a third of a call's CPU time and background tasks.
        self._library.is_internal_call.set(True)
        if request.answer_schema is None:
            return await self._ask(name, request, attempt, form=Form.WORDS)

        async def ask(form: Form) -> Completion:
            return await self._ask(name, request, attempt, form=form)

        return await self._forms.ask(name, self._best_form(name), ask)

    async def _ask(self, name: str, request: ModelRequest, attempt: AttemptState, form: Form) -> Completion:
        asked = self._to_arguments(name, request, limit=attempt.limit, form=form)
        accumulator = None if attempt.on_text is None else StreamAccumulator(attempt.on_text)
        try:
            if accumulator is not None:
                return await self._stream(name, request, asked=asked, accumulator=accumulator)
            return self._whole(name, request, await self._send(asked))
        except self._library.faults as error:
            failure = to_failure(error, self._clock)
            if may_be_billed(error):
                failure.usage = self._priced(name, estimate(request))
            raise failure from None
        except asyncio.CancelledError:
            attempt.usage = self._priced(
                name, estimate(request, *accumulator.written) if accumulator else estimate(request)
            )
            raise

    async def _send(self, asked: dict[str, Any]) -> Any:
        litellm = self._library.litellm
        if "client" not in asked:
            return await litellm.acompletion(**asked)
        # acompletion() prepares each call in a small thread pool, in case a provider has to log in first. Ours does
        # not, and under load the threads slow down the event loop.
        try:
            return await litellm.completion(**asked, acompletion=True)
        except Exception as error:  # noqa: BLE001  # litellm raises bare ones for an answer that it can't read
            raise litellm.exception_type(asked["model"], error, custom_llm_provider="hosted_vllm") from None

    def _best_form(self, name: str) -> Form:
        target = self._target(name)
        # litellm has no list of features for self-hosted servers, so the strictest form is tried first.
        if "api_base" in target or self._library.litellm.supports_response_schema(target["model"]):
            return Form.SCHEMA
        known = self._library.litellm.get_supported_openai_params(target["model"]) or ()
        return Form.OBJECT if "response_format" in known else Form.WORDS

    def _to_arguments(self, name: str, request: ModelRequest, limit: float, form: Form) -> dict[str, Any]:
        target = self._target(name)
        messages = fill(request) if request.images else list(request.messages)
        asked: dict[str, Any] = {
            **target,
            "litellm_logging_obj": self._library.log(target["model"]),
            "messages": with_marks(messages) if MARKED_MODEL.match(target["model"]) else messages,
            "max_tokens": request.max_tokens,
            "timeout": self._library.timeout(limit, connect=min(limit, CONNECT_SECONDS)),
            "num_retries": 0,
            "max_retries": 0,
        }
        if request.temperature is not None and form is not Form.BARE:
            asked["temperature"] = request.temperature
        if request.answer_schema is not None:
            asked |= to_response_format(request.answer_schema, form)
        if request.tools:
            asked["tools"] = list(request.tools)
        elif "client" not in asked and any("tool_calls" in message for message in request.messages):
            asked |= {"tools": [NO_TOOL], "tool_choice": "none"}
        return asked

    def _target(self, name: str) -> dict[str, Any]:
        if name not in self._targets:
            self._targets[name] = self._find_target(name)
        return self._targets[name]

    def _find_target(self, name: str) -> dict[str, Any]:
        """Return litellm's arguments for the model: its name, and for OpenAI-compatible servers the URL and key.

        Raises `RouteFailed` if litellm does not know the provider and no base URL is set.
        """
        bare = name.removeprefix("openai/")
        try:
            provider = "openai" if bare != name else self._library.litellm.get_llm_provider(name)[1]
        except self._library.litellm.exceptions.BadRequestError:
            if self._base_url is None:
                raise RouteFailed(Cause.MODEL_UNKNOWN) from None
            provider = "openai"
        if provider != "openai":
            return {"model": name}
        if self._base_url is None:
            return {"model": f"openai/{bare}", **({"api_key": self._key} if self._key else {})}
        server = {"api_base": self._base_url, "api_key": self._key or "none"}
        if REASONING_MODEL.match(bare):
            return {"model": f"openai/{bare}", **server}
        # The same wire format with less than half of the CPU time of litellm's `openai/` route.
        return {"model": f"hosted_vllm/{bare}", "client": self._library.client, **server}

    def _whole(self, name: str, request: ModelRequest, answer: Any) -> Completion:
        if not answer.choices:
            raise RouteFailed(Cause.EMPTY, usage=self._priced(name, to_usage(answer.usage) or estimate(request)))
        choice = answer.choices[0]
        calls = to_tool_calls(
            (call.id, call.function.name, call.function.arguments) for call in choice.message.tool_calls or ()
        )
        text = clean(choice.message.content or "")
        usage = self._priced(name, to_usage(answer.usage) or estimate(request, text, calls))
        completion = to_completion(name, text=text, tool_calls=calls, finish_reason=choice.finish_reason, usage=usage)
        return replace(completion, thinking=clean(getattr(choice.message, "reasoning_content", None) or ""))

    async def _stream(
        self, name: str, request: ModelRequest, asked: dict[str, Any], accumulator: StreamAccumulator
    ) -> Completion:
        answer = await self._send({**asked, "stream": True, "stream_options": {"include_usage": True}})
        try:
            await self._follow(answer, accumulator, speaks_openai=asked["model"].startswith(OPENAI_ROUTES))
        except self._library.stream_faults:
            accumulator.finish_reason = None
        text, calls = accumulator.text, accumulator.tool_calls
        if accumulator.finish_reason is None:
            raise RouteFailed(Cause.CUT, usage=self._priced(name, estimate(request, *accumulator.written)))
        usage = self._priced(name, to_usage(accumulator.usage) or estimate(request, text, calls))
        completion = to_completion(
            name, text=text, tool_calls=calls, finish_reason=accumulator.finish_reason, usage=usage
        )
        return replace(completion, thinking=accumulator.thinking)

    async def _follow(self, answer: Any, accumulator: StreamAccumulator, *, speaks_openai: bool) -> None:
        async with aclosing(answer):
            # The inner stream, because litellm's wrapper reports an interrupted stream as complete and leaks tasks.
            async for chunk in answer.completion_stream if speaks_openai else answer:
                accumulator.add(chunk)

    def _priced(self, name: str, usage: Usage) -> Usage:
        model = self._litellm_name(name)
        is_unknown = name not in self._prices and model in self.pricing.unpriced
        return usage if is_unknown else self.pricing.priced(name, model, usage)

    def _price_of_media(self, request: TranscriptionRequest | SpeechRequest, usage: Usage) -> float | None:
        return self.pricing.of_media(request, self._litellm_name(request.model), usage)

    def _litellm_name(self, name: str) -> str:
        return str(self._target(name)["model"]).replace("hosted_vllm/", "openai/")

    async def media_cost(self, request: MediaRequest) -> float | None:
        """Return an upper estimate of a request in US dollars; None if its price is unknown."""
        await self.load()
        model = self._litellm_name(request.model)
        if isinstance(request, DrawingRequest):
            found = self.pricing.of_image(request, model, None)
        else:
            found = self.pricing.of_media(request, model, request.estimated)
        by_token = self.pricing.highest(request.model)
        return found if found is not None or by_token is None else by_token * request.tokens

    async def _make(self, operation: str, request: MediaRequest, **asked: Any) -> Any:
        """Call one of litellm's functions for images and sound; raises `RouteFailed`."""
        await self.load()
        target = dict(self._target(request.model))
        target.pop("client", None)
        target["model"] = target["model"].replace("hosted_vllm/", "openai/")
        if operation == "aimage_generation" and "gpt-image" not in target["model"]:
            # The other models answer with URLs unless they are asked for the content.
            target["response_format"] = "b64_json"
        try:
            return await getattr(self._library.litellm, operation)(**target, **asked, max_retries=0)
        except self._library.faults as error:
            failure = to_failure(error, self._clock)
            if may_be_billed(error):
                failure.usage = request.estimated
            raise failure from None

    async def transcribe(self, request: TranscriptionRequest, seconds: float) -> tuple[str, Usage]:
        """Return what is said in a recording, and the usage; raises `RouteFailed`."""
        file = (request.filename, request.content)
        answer = await self._make("atranscription", request, file=file, response_format="json", timeout=seconds)
        usage = request.to_usage(getattr(answer, "usage", None))
        # Models that are paid by the minute cost nothing by their tokens.
        cost = None if isinstance(usage, EstimatedUsage) else self._priced(request.model, usage).cost
        cost = cost or self._price_of_media(request, usage)
        return clean(answer.text or "").strip(), replace(usage, cost=cost)

    async def speak(self, request: SpeechRequest, seconds: float) -> tuple[bytes, Usage]:
        """Return a spoken text as MP3, and the usage; raises `RouteFailed`."""
        answer = await self._make(
            "aspeech", request, input=request.text, voice=request.voice, response_format="mp3", timeout=seconds
        )
        return answer.content, replace(request.estimated, cost=self._price_of_media(request, request.estimated))

    async def draw(self, request: DrawingRequest, seconds: float) -> tuple[bytes | str, Usage]:
        """Make one image; return its content or its URL, and the usage. Raises `RouteFailed`."""
        answer = await self._make(
            "aimage_generation", request, prompt=request.prompt, size=request.size, n=1, timeout=seconds
        )
        image = answer.data[0] if answer.data else None
        drawn = b64decode(image.b64_json) if image is not None and image.b64_json else image.url if image else None
        if not drawn:
            raise RouteFailed(Cause.EMPTY, usage=request.to_usage(answer.usage, None))
        model = self._litellm_name(request.model)
        price = self.pricing.of_image(request, model, answer)
        return drawn, request.to_usage(answer.usage, price)
