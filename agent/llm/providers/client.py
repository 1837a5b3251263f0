"""Calls chat completions of providers: OpenAI's protocol by our own client, all others through litellm."""

import asyncio
import re
from contextlib import aclosing
from copy import deepcopy
from typing import Any

from msgspec.structs import replace

from agent.llm.completions import (
    NO_TOOL,
    AttemptState,
    Cause,
    Completion,
    ModelRequest,
    RouteFailed,
    ToolCall,
    estimate,
    to_tool_calls,
)
from agent.llm.providers.catalogue import Catalogue, Prices, Pricing
from agent.llm.providers.errors import may_be_billed, to_failure
from agent.llm.providers.library import Library, import_litellm
from agent.llm.providers.names import UnknownName, find_unknown, find_unlisted
from agent.llm.providers.openai_api import OpenAIServer, read_usage, to_count, to_usage
from agent.llm.providers.requests import MARKED_MODEL, Form, Forms, to_response_format, with_marks, with_short_ids
from agent.llm.providers.streaming import StreamAccumulator
from agent.llm.vision import fill
from shared.clock import Clock
from shared.http.litellm import close_clients
from shared.messages import Usage
from shared.settings import Settings, find_openai_server
from shared.text import clean

# These models need `max_completion_tokens`, and refuse a temperature.
REASONING_MODEL = re.compile(r"^(o\d|gpt-5)")
OPENAI = "openai"


def _has_failed(loading: asyncio.Task[Library]) -> bool:
    return loading.done() and (loading.cancelled() or loading.exception() is not None)


class Providers:
    """Calls models by their litellm name.

    litellm is imported only for models that our own client can't call: `load` does so, or the first of their calls.
    """

    def __init__(self, settings: Settings, clock: Clock, prices: Prices | None = None) -> None:
        self._clock = clock
        self._prices = Prices() if prices is None else prices
        self.catalogue = Catalogue()
        self.pricing = Pricing(self._prices, self.catalogue)
        self._base_url = settings.openai_base_url
        self._key = settings.openai_api_key.get_secret_value() if settings.openai_api_key else None
        url, headers = find_openai_server(settings)
        self._server = OpenAIServer(url, headers)
        self._loading: asyncio.Task[Library] | None = None
        self._needs_litellm: dict[str, bool] = {}
        self._forms = Forms()

    @property
    def library(self) -> Library:
        """Return litellm; `load` comes first."""
        if self._loading is None:
            raise RuntimeError("litellm is loaded before it is used")
        return self._loading.result()

    def needs_litellm(self, name: str) -> bool:
        """Return whether this model is called through litellm, not by our own client."""
        if name not in self._needs_litellm:
            # litellm translates to the protocol of responses.
            is_translated = self.catalogue.find(name).get("mode") == "responses"
            self._needs_litellm[name] = is_translated or self._find_provider(name) not in {OPENAI, None}
        return self._needs_litellm[name]

    def _find_provider(self, name: str) -> str | None:
        return OPENAI if name.startswith("openai/") else self.catalogue.find_provider(name)

    async def prepare(self, *names: str) -> None:
        """Load what calls of these models need, in a thread; of litellm only if one of them needs it."""
        await asyncio.to_thread(self.catalogue.find, "")
        if any(self.needs_litellm(name) for name in names):
            await self.load()
        if not all(self.needs_litellm(name) for name in names):
            await asyncio.to_thread(self._server.load)

    async def load(self) -> None:
        """Import litellm in a thread, only once, also if several first calls wait for it; a failure is tried again."""
        if self._loading is None or _has_failed(self._loading):
            self._loading = asyncio.create_task(asyncio.to_thread(import_litellm))
        # Shielded, because other callers wait for the same import.
        await asyncio.shield(self._loading)
        if self.pricing.litellm is None:
            self.pricing.use(self.library.litellm, self.library.faults)

    def window(self, name: str) -> int | None:
        """Return the model's context window in tokens; None if litellm does not list it."""
        window = self.catalogue.find(name).get("max_input_tokens")
        return window if isinstance(window, int) and window > 0 else None

    def sees(self, name: str) -> bool | None:
        """Return whether the model accepts images; None if litellm does not list the model."""
        entry = self.catalogue.find(name)
        return bool(entry.get("supports_vision")) if entry else None

    def list_models(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the models that litellm lists, and the providers that may have others.

        The provider `*` stands for names without a provider, when they go to a server of one's own.
        """
        providers = self.catalogue.providers
        return self.catalogue.names, frozenset({*providers, "*"} if self._base_url else providers)

    async def find_missing(self, name: str) -> tuple[str, ...] | None:
        """Return the variables that the model's provider still needs; None if litellm knows no such provider."""
        if not self.needs_litellm(name):
            if self._base_url is None and self._find_provider(name) is None:
                return None
            return () if self._key or self._base_url else ("OPENAI_API_KEY",)
        await self.load()
        try:
            target = self.target(name)
        except RouteFailed:
            return None
        has_key = "api_key" in target
        return () if has_key else tuple(self.library.litellm.validate_environment(target["model"])["missing_keys"])

    async def find_unknown(self, name: str) -> UnknownName | None:
        """Return what is wrong with a model's name; None if it is right, or cannot be told."""
        if self.needs_litellm(name):
            return find_unlisted(name, self.catalogue)
        return await find_unknown(name, self._server, self.catalogue)

    def find_similar(self, name: str) -> tuple[str, ...]:
        """Return listed models whose names are like this one."""
        unlisted = find_unlisted(name, self.catalogue)
        return unlisted.nearest if unlisted else ()

    def highest_price(self, name: str) -> float | None:
        """Return US dollars for the dearest kind of token of a model; None if it is unknown."""
        return self.pricing.highest(name)

    async def aclose(self) -> None:
        """Close our connections and those that litellm keeps for other providers."""
        await self._server.aclose()
        if self._loading is not None:
            # Before the end of the import nothing is open; the thread can't be stopped, and nobody waits for it.
            if not self._loading.done():
                self._loading.cancel()
            elif not _has_failed(self._loading):
                await close_clients(self.library.litellm)
            self._loading = None

    async def complete(self, name: str, request: ModelRequest, attempt: AttemptState) -> Completion:
        """Call the provider of this model; raises `RouteFailed`."""
        if self.needs_litellm(name):
            await self.load()
            self.library.know(self.target(name)["model"])
        if request.answer_schema is None:
            return await self._ask(name, request, attempt, form=Form.WORDS)

        async def ask(form: Form) -> Completion:
            return await self._ask(name, request, attempt, form=form)

        if not self.needs_litellm(name):
            # No list says what a server of one's own accepts, so the strictest form is tried first.
            entry = {} if self._base_url else self.catalogue.find(name)
            best = Form.SCHEMA if entry.get("supports_response_schema", not entry) else Form.OBJECT
        elif self.library.litellm.supports_response_schema(model := self.target(name)["model"]):
            best = Form.SCHEMA
        else:
            parameters = self.library.litellm.get_supported_openai_params(model) or ()
            best = Form.OBJECT if "response_format" in parameters else Form.WORDS
        return await self._forms.ask(name, best, ask)

    async def _ask(self, name: str, request: ModelRequest, attempt: AttemptState, form: Form) -> Completion:
        accumulator = None if attempt.on_text is None else StreamAccumulator(attempt.on_text)
        is_ours = not self.needs_litellm(name)
        ask, faults = (self._ask_server, self._server.faults) if is_ours else (self._ask_litellm, self.library.faults)
        try:
            return await ask(name, request, attempt.limit, form=form, accumulator=accumulator)
        except faults as error:
            failure = to_failure(error, self._clock)
            if may_be_billed(error):
                failure.usage = self.priced(name, estimate(request))
            raise failure from None
        except asyncio.CancelledError:
            attempt.usage = self.priced(
                name, estimate(request, *accumulator.written) if accumulator else estimate(request)
            )
            raise

    async def _ask_server(
        self, name: str, request: ModelRequest, limit: float, *, form: Form, accumulator: StreamAccumulator | None
    ) -> Completion:
        if self._base_url is None and self._find_provider(name) is None:
            raise RouteFailed(Cause.MODEL_UNKNOWN)
        model = name.removeprefix("openai/")
        is_reasoning = REASONING_MODEL.match(model) is not None
        body: dict[str, Any] = {
            "model": model,
            "messages": fill(request) if request.images else list(request.messages),
            "max_completion_tokens" if is_reasoning else "max_tokens": request.max_tokens,
        }
        if form is not Form.BARE and not is_reasoning:
            body |= request.sampling.to_fields()
        if request.answer_schema is not None:
            body |= to_response_format(request.answer_schema, form)
        if request.tools:
            body["tools"] = list(request.tools)
        if accumulator is not None:
            async with self._server.stream(body, limit) as lines:
                await accumulator.add_lines(lines, self._server.stream_faults)
            return self._assemble(name, request, accumulator)
        answer = await self._server.ask(body, limit)
        if not answer.choices:
            raise RouteFailed(Cause.EMPTY, usage=self.priced(name, read_usage(answer.usage) or estimate(request)))
        text, calls = answer.text, answer.tool_calls
        return _to_completion(
            name,
            text=text,
            tool_calls=calls,
            finish_reason=answer.choices[0].finish_reason,
            usage=self.priced(name, read_usage(answer.usage) or estimate(request, text, calls)),
            thinking=answer.thinking,
        )

    async def _ask_litellm(
        self, name: str, request: ModelRequest, limit: float, *, form: Form, accumulator: StreamAccumulator | None
    ) -> Completion:
        arguments = self._to_arguments(name, request, limit=limit, form=form)
        if accumulator is None:
            answer = await self.library.litellm.acompletion(**arguments)
            # Without a count from the provider, litellm's answer has no such field.
            counted = _to_usage(getattr(answer, "usage", None))
            if not answer.choices:
                raise RouteFailed(Cause.EMPTY, usage=self.priced(name, counted or estimate(request)))
            choice = answer.choices[0]
            tool_calls = choice.message.tool_calls or ()
            triples = ((call.id, call.function.name, call.function.arguments) for call in tool_calls)
            calls = to_tool_calls(triples) if tool_calls else ()
            text = clean(choice.message.content or "")
            usage = self.priced(name, counted or estimate(request, text, calls))
            thinking = clean(getattr(choice.message, "reasoning_content", None) or "")
            return _to_completion(
                name, text=text, tool_calls=calls, finish_reason=choice.finish_reason, usage=usage, thinking=thinking
            )
        stream = await self.library.litellm.acompletion(
            **arguments, stream=True, stream_options={"include_usage": True}
        )
        try:
            async with aclosing(stream):
                async for chunk in stream:
                    accumulator.add(chunk)
        except self.library.stream_faults as error:
            # Some providers are asked only when the first piece is read, so that this may be their refusal.
            if isinstance(error, self.library.faults) and not any(accumulator.written):
                raise
            accumulator.finish_reason = None
        return self._assemble(name, request, accumulator)

    def _to_arguments(self, name: str, request: ModelRequest, limit: float, form: Form) -> dict[str, Any]:
        target = self.target(name)
        messages = fill(request) if request.images else list(request.messages)
        if MARKED_MODEL.match(target["model"]):
            messages = with_marks(messages)
        elif target["model"].startswith("mistral/"):
            messages = with_short_ids(messages)
        arguments: dict[str, Any] = {
            **target,
            "messages": messages,
            "max_tokens": request.max_tokens,
            "timeout": limit,
            "num_retries": 0,
            "max_retries": 0,
        }
        # A reasoning model has none of these, and its provider refuses a request with one.
        if form is not Form.BARE and not REASONING_MODEL.match(name.rpartition("/")[2]):
            arguments |= request.sampling.to_fields()
        if request.answer_schema is not None:
            arguments |= to_response_format(request.answer_schema, form)
        if request.tools:
            arguments["tools"] = list(request.tools)
        elif any("tool_calls" in message for message in request.messages):
            arguments |= {"tools": [NO_TOOL], "tool_choice": "none"}
        # litellm changes messages and schemas in place, for Google's models for instance; they serve other routes too.
        return deepcopy(arguments)

    def target(self, name: str) -> dict[str, Any]:
        """Return litellm's arguments for the model: its name, and for OpenAI-compatible servers the URL and key.

        Raises `RouteFailed` if litellm does not know the provider and no base URL is set.
        """
        provider = self._find_provider(name)
        if provider is None and self._base_url is None:
            raise RouteFailed(Cause.MODEL_UNKNOWN)
        if provider not in {OPENAI, None}:
            return {"model": name}
        model = f"openai/{name.removeprefix('openai/')}"
        if self._base_url is not None:
            return {"model": model, "api_base": self._base_url, "api_key": self._key or "none"}
        return {"model": model, **({"api_key": self._key} if self._key else {})}

    def _assemble(self, name: str, request: ModelRequest, accumulator: StreamAccumulator) -> Completion:
        text, calls = accumulator.text, accumulator.tool_calls
        if accumulator.finish_reason is None:
            raise RouteFailed(Cause.CUT, usage=self.priced(name, estimate(request, *accumulator.written)))
        counted = read_usage(accumulator.usage) if isinstance(accumulator.usage, dict) else _to_usage(accumulator.usage)
        return _to_completion(
            name,
            text=text,
            tool_calls=calls,
            finish_reason=accumulator.finish_reason,
            usage=self.priced(name, counted or estimate(request, text, calls)),
            thinking=accumulator.thinking,
        )

    def priced(self, name: str, usage: Usage) -> Usage:
        """Return the usage with its cost, as far as prices are known."""
        if not self.needs_litellm(name):
            return self.pricing.listed(name, usage)
        model = self.litellm_name(name)
        is_unknown = name not in self._prices and model in self.pricing.unpriced
        return usage if is_unknown else self.pricing.priced(name, model, usage)

    def litellm_name(self, name: str) -> str:
        """Return the name by which litellm lists a model's price."""
        return str(self.target(name)["model"])


def _to_usage(reported: Any) -> Usage | None:
    """Return the usage that litellm reports, without cost; None if it is missing or not credible."""
    if reported is None:
        return None
    details = getattr(reported, "prompt_tokens_details", None)
    return to_usage(
        to_count(getattr(reported, "prompt_tokens", 0)),
        to_count(getattr(details, "cached_tokens", 0)),
        to_count(getattr(reported, "completion_tokens", 0)),
    )


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
        is_filtered = finish_reason == "content_filter"
        raise RouteFailed(Cause.FILTERED if is_filtered else Cause.EMPTY, usage=usage)
    return completion
