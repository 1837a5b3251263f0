"""The litellm client: the only module that calls chat completions of providers."""

import asyncio
import re
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from agent.llm.completions import (
    NO_TOOL,
    AttemptState,
    Cause,
    Completion,
    ModelRequest,
    RouteFailed,
    ToolCall,
    to_tool_calls,
)
from agent.llm.providers.errors import may_be_billed, to_failure
from agent.llm.providers.library import Library, import_litellm
from agent.llm.providers.pricing import Prices, Pricing, list_models
from agent.llm.providers.requests import MARKED_MODEL, Form, Forms, to_response_format, with_marks
from agent.llm.providers.streaming import StreamAccumulator
from agent.llm.tokens import estimate
from agent.llm.vision import fill
from shared.clock import Clock
from shared.messages import Usage
from shared.settings import Settings
from shared.text import clean

CONNECT_SECONDS = 10.0
# These models need `max_completion_tokens`, which only litellm's own OpenAI route sends.
REASONING_MODEL = re.compile(r"^(o\d|gpt-5)")

# The largest count that the ledger can store; a higher one is not credible and is ignored.
MOST_TOKENS = 2**31 - 1
# litellm's route for servers with OpenAI's API.
OWN_SERVER = "hosted_vllm/"
# What of a request is sent to them beside model and messages.
BODY = ("max_tokens", "temperature", "response_format", "tools", "stream_options")


def _has_failed(loading: asyncio.Task[Library]) -> bool:
    return loading.done() and (loading.cancelled() or loading.exception() is not None)


class Providers:
    """Calls models by their litellm name."""

    def __init__(self, settings: Settings, clock: Clock, prices: Prices | None = None) -> None:
        self._clock = clock
        self._prices = Prices() if prices is None else prices
        self.pricing = Pricing(self._prices, self._known)
        self._base_url = settings.openai_base_url
        self._key = settings.openai_api_key.get_secret_value() if settings.openai_api_key else None
        self._loading: asyncio.Task[Library] | None = None
        self._targets: dict[str, dict[str, Any]] = {}
        self._forms = Forms()

    @property
    def library(self) -> Library:
        """Return litellm; `load` comes first."""
        if self._loading is None:
            raise RuntimeError("litellm is loaded before it is used")
        return self._loading.result()

    async def load(self) -> None:
        """Import litellm in a thread, only once, also if several first calls wait for it; a failure is tried again."""
        if self._loading is None or _has_failed(self._loading):
            self._loading = asyncio.create_task(asyncio.to_thread(import_litellm))
        # Shielded, because other callers wait for the same import.
        await asyncio.shield(self._loading)
        if self.pricing.litellm is None:
            self.pricing.use(self.library.litellm, self.library.faults)

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
        return list_models(self.library.litellm, has_own_server=self._base_url is not None)

    @property
    def _is_loaded(self) -> bool:
        return self._loading is not None and self._loading.done() and not _has_failed(self._loading)

    def find_missing(self, name: str) -> tuple[str, ...] | None:
        """Return the variables that the model's provider still needs; None if litellm knows no such provider."""
        try:
            target = self.target(name)
        except RouteFailed:
            return None
        has_key = "api_key" in target
        return () if has_key else tuple(self.library.litellm.validate_environment(target["model"])["missing_keys"])

    def highest_price(self, name: str) -> float | None:
        """Return US dollars for the dearest kind of token of a model; None if it is unknown."""
        is_listed = name in self._prices or bool(self._known(name))
        return self.pricing.highest(name) if is_listed else None

    def _known(self, name: str) -> Mapping[str, Any]:
        if not self._is_loaded:
            return {}
        models = self.library.litellm.model_cost
        bare = name.removeprefix("openai/")
        return models.get(bare) or models.get(bare.partition("/")[2]) or {}

    async def aclose(self) -> None:
        """Close our connections and those that litellm keeps for other providers."""
        if self._loading is not None:
            await asyncio.wait({self._loading})
            if not _has_failed(self._loading):
                await self.library.client.close()
                await self.library.litellm.close_litellm_async_clients()
            self._loading = None

    async def complete(self, name: str, request: ModelRequest, attempt: AttemptState) -> Completion:
        """Call the provider of this model; raises `RouteFailed`."""
        await self.load()
        # litellm then skips its own logging and billing, which take a third of a call's CPU time and background tasks.
        self.library.is_internal_call.set(True)
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
        except self.library.faults as error:
            failure = to_failure(error, self._clock)
            if may_be_billed(error):
                failure.usage = self.priced(name, estimate(request))
            raise failure from None
        except asyncio.CancelledError:
            attempt.usage = self.priced(
                name, estimate(request, *accumulator.written) if accumulator else estimate(request)
            )
            raise

    async def _send(self, asked: dict[str, Any]) -> Any:
        litellm = self.library.litellm
        if "client" not in asked:
            return await litellm.acompletion(**asked)
        # acompletion() ends with this for such a server. Before, it goes through special cases of a hundred providers,
        # which takes half of a call's CPU time, and deletes from schemas of tools in place, even an argument "strict".
        provider, _, model = asked["model"].partition("/")
        try:
            return await self.library.handler.completion(
                **{key: asked[key] for key in ("messages", "api_base", "api_key", "client", "timeout")},
                model=model,
                custom_llm_provider=provider,
                provider_config=self.library.own_server,
                litellm_params={},
                logging_obj=asked["litellm_logging_obj"],
                # A stream is read line by line.
                model_response=None if "stream" in asked else litellm.ModelResponse(),
                encoding=None,
                acompletion=True,
                stream="stream" in asked,
                # In `extra_body`, schemas of tools are sent without being walked through.
                optional_params={"extra_body": {key: asked[key] for key in BODY if key in asked}},
            )
        except Exception as error:  # noqa: BLE001  # litellm raises bare ones for an answer that it can't read
            raise litellm.exception_type(asked["model"], error, custom_llm_provider=provider) from None

    def _best_form(self, name: str) -> Form:
        target = self.target(name)
        # litellm has no list of features for self-hosted servers, so the strictest form is tried first.
        if "api_base" in target or self.library.litellm.supports_response_schema(target["model"]):
            return Form.SCHEMA
        known = self.library.litellm.get_supported_openai_params(target["model"]) or ()
        return Form.OBJECT if "response_format" in known else Form.WORDS

    def _to_arguments(self, name: str, request: ModelRequest, limit: float, form: Form) -> dict[str, Any]:
        target = self.target(name)
        # litellm expects a naive datetime in local time.
        begun = self._clock.now().astimezone().replace(tzinfo=None)
        messages = fill(request) if request.images else list(request.messages)
        asked: dict[str, Any] = {
            **target,
            "litellm_logging_obj": self.library.log(target["model"], start_time=begun),
            "messages": with_marks(messages) if MARKED_MODEL.match(target["model"]) else messages,
            "max_tokens": request.max_tokens,
            "timeout": self.library.timeout(limit, connect=min(limit, CONNECT_SECONDS)),
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

    def target(self, name: str) -> dict[str, Any]:
        """Return litellm's arguments for the model: its name, and for OpenAI-compatible servers the URL and key.

        Raises `RouteFailed` if litellm does not know the provider and no base URL is set.
        """
        if name not in self._targets:
            self._targets[name] = self._find_target(name)
        return self._targets[name]

    def _find_target(self, name: str) -> dict[str, Any]:
        bare = name.removeprefix("openai/")
        try:
            provider = "openai" if bare != name else self.library.litellm.get_llm_provider(name)[1]
        except self.library.litellm.exceptions.BadRequestError:
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
        return {"model": f"{OWN_SERVER}{bare}", "client": self.library.client, **server}

    def _whole(self, name: str, request: ModelRequest, answer: Any) -> Completion:
        # Without a count from the provider, litellm's answer has no such field.
        counted = _to_usage(getattr(answer, "usage", None))
        if not answer.choices:
            raise RouteFailed(Cause.EMPTY, usage=self.priced(name, counted or estimate(request)))
        choice = answer.choices[0]
        written = choice.message.tool_calls or ()
        given = ((call.id, call.function.name, call.function.arguments) for call in written)
        calls = to_tool_calls(given) if written else ()
        text = clean(choice.message.content or "")
        usage = self.priced(name, counted or estimate(request, text, calls))
        thinking = clean(getattr(choice.message, "reasoning_content", None) or "")
        return _to_completion(
            name, text=text, tool_calls=calls, finish_reason=choice.finish_reason, usage=usage, thinking=thinking
        )

    async def _stream(
        self, name: str, request: ModelRequest, asked: dict[str, Any], accumulator: StreamAccumulator
    ) -> Completion:
        answer = await self._send({**asked, "stream": True, "stream_options": {"include_usage": True}})
        try:
            await self._follow(answer, accumulator, model=asked["model"])
        except self.library.stream_faults:
            accumulator.finish_reason = None
        text, calls = accumulator.text, accumulator.tool_calls
        if accumulator.finish_reason is None:
            raise RouteFailed(Cause.CUT, usage=self.priced(name, estimate(request, *accumulator.written)))
        usage = self.priced(name, self._read_usage(accumulator.usage) or estimate(request, text, calls))
        return _to_completion(
            name,
            text=text,
            tool_calls=calls,
            finish_reason=accumulator.finish_reason,
            usage=usage,
            thinking=accumulator.thinking,
        )

    async def _follow(self, answer: Any, accumulator: StreamAccumulator, *, model: str) -> None:
        async with aclosing(answer):
            if model.startswith(OWN_SERVER):
                async for line in answer.aiter_lines():
                    accumulator.add_line(line)
                return
            # The inner stream, because litellm's wrapper reports an interrupted stream as complete and leaks tasks.
            async for chunk in answer.completion_stream if model.startswith("openai/") else answer:
                accumulator.add(chunk)

    def _read_usage(self, given: Any) -> Usage | None:
        if not isinstance(given, dict):
            return _to_usage(given)
        try:
            # litellm knows by which names servers report cached tokens.
            return _to_usage(self.library.litellm.Usage(**given))
        except self.library.stream_faults:
            return None

    def priced(self, name: str, usage: Usage) -> Usage:
        """Return the usage with its cost, as far as prices are known."""
        model = self.litellm_name(name)
        is_unknown = name not in self._prices and model in self.pricing.unpriced
        return usage if is_unknown else self.pricing.priced(name, model, usage)

    def litellm_name(self, name: str) -> str:
        """Return the name by which litellm lists a model's price."""
        return str(self.target(name)["model"]).replace(OWN_SERVER, "openai/")


def _to_usage(given: Any) -> Usage | None:
    """Return the usage that the provider reports, without cost; None if it is missing or not credible."""
    if given is None:
        return None
    details = getattr(given, "prompt_tokens_details", None)
    input_tokens = _count(getattr(given, "prompt_tokens", 0))
    output_tokens = _count(getattr(given, "completion_tokens", 0))
    # litellm fills in zeros if the provider reports no count; a real prompt never has zero tokens.
    if not input_tokens or max(input_tokens, output_tokens) > MOST_TOKENS:
        return None
    cached_tokens = min(_count(getattr(details, "cached_tokens", 0)), input_tokens)
    return Usage(input_tokens, cached_tokens, output_tokens)


def _to_completion(
    name: str, text: str, tool_calls: tuple[ToolCall, ...], finish_reason: str | None, usage: Usage, *, thinking: str
) -> Completion:
    """Return the completion; raises `RouteFailed` if it has neither text nor tool calls."""
    completion = Completion(text, (), "end_turn", usage=usage, model=name, thinking=thinking)
    if finish_reason == "length":
        # The last call is incomplete, and the ones before it may depend on it.
        return replace(completion, stop="max_tokens")
    if tool_calls:
        return replace(completion, tool_calls=tool_calls, stop="tool_use")
    if not text.strip():
        raise RouteFailed(Cause.EMPTY, usage=usage)
    return completion


def _count(value: Any) -> int:
    return max(0, value) if isinstance(value, int) else 0
