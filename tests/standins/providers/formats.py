"""The wire formats: what each provider asks of a request, and how it words answers and errors."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from aiohttp import web
from pydantic import SecretStr

from shared.settings import Settings

KEY = "sk-stand-in"
MODEL = "stand-in"


class WrongRequest(Exception):
    """What the real API would refuse."""


class WrongPath(WrongRequest):
    """What the real API does not have; whoever asks for it, on a machine that is shared, may be no caller of ours."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: `calls` are (name, arguments), `stop` is `end`, `length` or `filter`, `cached` a part of `input`."""

    text: str = "Hello there."
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    stop: str = "end"
    input: int = 40
    cached: int = 25
    output: int = 7

    @property
    def halves(self) -> tuple[str, ...]:
        """Return the text in two pieces."""
        middle = len(self.text) // 2
        return tuple(filter(None, (self.text[:middle], self.text[middle:])))


def require(holds: Any, what: str) -> None:
    """Refuse a request for which this does not hold."""
    if not holds:
        raise WrongRequest(what)


def require_path(holds: Any, request: web.BaseRequest) -> None:
    """Refuse a path that the API does not have."""
    if not holds:
        raise WrongPath(request.path)


def events(*chunks: Any) -> Iterator[str]:
    """Return server-sent events."""
    return (f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)


class Format(ABC):
    """One provider: its models' litellm name, the variables that lead there, and its wire format."""

    name: ClassVar[str]
    model: ClassVar[str]
    stream_type: ClassVar[str] = "text/event-stream"
    errors: ClassVar[Mapping[str, tuple[int, Any]]]
    stops: ClassVar[Mapping[str, str]] = {}
    reports_cached = True

    def has_filter(self, is_error: bool) -> bool:
        """Return whether the provider filters, by an error or by the reason why the answer ends."""
        return "filtered" in self.errors if is_error else "filter" in self.stops

    @abstractmethod
    def variables(self, base: str) -> dict[str, str]:
        """Return the environment of an installation that uses this provider."""
        ...

    def settings(self, base: str) -> Settings:  # only OpenAI's server is one of ours
        """Return the settings of an installation that uses this provider."""
        return Settings(llm_models=(self.model,))

    @abstractmethod
    def check(self, request: web.BaseRequest, body: dict[str, Any]) -> bool:
        """Return whether the answer is to be streamed; raises `WrongRequest`."""
        ...

    @abstractmethod
    def render(self, answer: Answer) -> Any:
        """Return a whole answer."""
        ...

    @abstractmethod
    def stream(self, answer: Answer) -> Iterator[str]:
        """Return the pieces of a streamed answer; after the first two there is no end yet."""
        ...

    def results(self, body: dict[str, Any]) -> list[str]:
        """Return the texts of tool results in a request."""
        return [message["content"] for message in body["messages"] if message["role"] == "tool"]

    def tool_names(self, body: dict[str, Any]) -> list[str]:
        """Return the names of the tools that a request offers."""
        return [tool["function"]["name"] for tool in body.get("tools", ())]


class OpenAI(Format):
    """OpenAI's chat completions."""

    name = "openai"
    model = f"openai/{MODEL}"
    stops: ClassVar = {"end": "stop", "length": "length", "filter": "content_filter"}
    errors: ClassVar = {
        "key": (401, {"error": {"message": "Incorrect API key provided.", "code": "invalid_api_key"}}),
        "rate": (429, {"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}}),
        "server": (500, {"error": {"message": "The server had an error", "type": "server_error"}}),
        "too_long": (
            400,
            {
                "error": {
                    "message": "This model's maximum context length is 8192 tokens. However, your messages resulted in"
                    " 9000 tokens. Please reduce the length of the messages.",
                    "type": "invalid_request_error",
                    "code": "context_length_exceeded",
                }
            },
        ),
        "filtered": (400, {"error": {"message": "flagged by our safety system", "code": "content_policy_violation"}}),
    }

    def variables(self, base: str) -> dict[str, str]:  # they are settings of ours
        return {}

    def settings(self, base: str) -> Settings:
        if self.name != "openai":
            return super().settings(base)
        return Settings(llm_models=(self.model,), openai_base_url=f"{base}/v1", openai_api_key=SecretStr(KEY))

    def check(self, request: web.BaseRequest, body: dict[str, Any]) -> bool:
        require_path(request.path == "/v1/chat/completions", request)
        require(request.headers.get("Authorization") == f"Bearer {KEY}", "no key")
        return self.check_body(body)

    def check_body(self, body: dict[str, Any]) -> bool:
        """Check what the servers with OpenAI's format have in common."""
        calls = {call["id"] for message in body["messages"] for call in message.get("tool_calls") or ()}
        for message in body["messages"]:
            require(message["role"] != "tool" or message["tool_call_id"] in calls, "a result without its call")
        return bool(body.get("stream"))

    def render(self, answer: Answer) -> Any:
        message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
        if answer.calls:
            message["tool_calls"] = [
                {
                    "id": self.call_id(place),
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(args)},
                }
                for place, (name, args) in enumerate(answer.calls)
            ]
        choice = {"index": 0, "message": message, "finish_reason": self._stop(answer)}
        return {**self._frame("chat.completion"), "choices": [choice], "usage": self._usage(answer)}

    def stream(self, answer: Answer) -> Iterator[str]:
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": piece} for piece in answer.halves]
        for place, (name, args) in enumerate(answer.calls):
            text = json.dumps(args)
            function = {"name": name, "arguments": ""}
            deltas.append(
                {"tool_calls": [{"index": place, "id": self.call_id(place), "type": "function", "function": function}]}
            )
            deltas += [
                {"tool_calls": [{"index": place, "function": {"arguments": piece}}]} for piece in (text[:3], text[3:])
            ]
        frame = self._frame("chat.completion.chunk")
        yield from events(
            *({**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas)
        )
        end = {"index": 0, "delta": {}, "finish_reason": self._stop(answer)}
        yield from self.stream_end(frame, end, self._usage(answer))
        yield "data: [DONE]\n\n"

    def stream_end(self, frame: dict[str, Any], end: dict[str, Any], usage: dict[str, Any]) -> Iterator[str]:
        """Return the last chunks, of which OpenAI's very last has the usage alone."""
        return events({**frame, "choices": [end]}, {**frame, "choices": [], "usage": usage})

    def call_id(self, place: int) -> str:
        """Return the id of a call."""
        return f"call_{place}"

    def _stop(self, answer: Answer) -> str:
        return "tool_calls" if answer.calls and answer.stop == "end" else self.stops[answer.stop]

    def _frame(self, kind: str) -> dict[str, Any]:
        return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": MODEL}

    def _usage(self, answer: Answer) -> dict[str, Any]:
        return {
            "prompt_tokens": answer.input,
            "completion_tokens": answer.output,
            "total_tokens": answer.input + answer.output,
            "prompt_tokens_details": {"cached_tokens": answer.cached},
        }


class HostedVLLM(OpenAI):
    """A server of vLLM."""

    name = "hosted_vllm"
    model = f"hosted_vllm/{MODEL}"

    def variables(self, base: str) -> dict[str, str]:
        return {"HOSTED_VLLM_API_BASE": f"{base}/v1", "HOSTED_VLLM_API_KEY": KEY}


class OpenRouter(OpenAI):
    """OpenRouter."""

    name = "openrouter"
    model = f"openrouter/{MODEL}/{MODEL}"

    def variables(self, base: str) -> dict[str, str]:
        return {"OPENROUTER_API_BASE": f"{base}/v1", "OPENROUTER_API_KEY": KEY}


class Azure(OpenAI):
    """Azure OpenAI: a deployment in the path, a header of its own, and a filter that answers with 400."""

    name = "azure"
    model = f"azure/{MODEL}"
    errors: ClassVar = {
        **OpenAI.errors,
        "key": (
            401,
            {
                "error": {
                    "code": "401",
                    "message": "Access denied due to invalid subscription key or wrong API endpoint.",
                }
            },
        ),
        "rate": (429, {"error": {"code": "429", "message": "Requests have exceeded call rate limit. Please retry."}}),
        "filtered": (
            400,
            {
                "error": {
                    "message": "The response was filtered due to the prompt triggering Azure OpenAI's content"
                    " management policy. Please modify your prompt and retry.",
                    "type": None,
                    "param": "prompt",
                    "code": "content_filter",
                    "status": 400,
                    "innererror": {
                        "code": "ResponsibleAIPolicyViolation",
                        "content_filter_result": {"violence": {"filtered": True, "severity": "high"}},
                    },
                }
            },
        ),
    }

    def variables(self, base: str) -> dict[str, str]:
        return {"AZURE_API_BASE": base, "AZURE_API_KEY": KEY, "AZURE_API_VERSION": "2024-10-21"}

    def check(self, request: web.BaseRequest, body: dict[str, Any]) -> bool:
        require_path(request.path == f"/openai/deployments/{MODEL}/chat/completions", request)
        require(request.query.get("api-version") == "2024-10-21", "no api-version")
        require(request.headers.get("api-key") == KEY, "no key")
        return self.check_body(body)

    def stream(self, answer: Answer) -> Iterator[str]:
        # The first chunk has what the filter says of the prompt, and no choice.
        yield from events(
            {"id": "", "object": "", "created": 0, "model": "", "choices": [], "prompt_filter_results": []}
        )
        yield from super().stream(answer)


class Mistral(OpenAI):
    """Mistral: ids of nine letters or digits, no list of `stream_options`, flat errors."""

    name = "mistral"
    model = f"mistral/{MODEL}"
    errors: ClassVar = {
        "key": (401, {"detail": "Unauthorized"}),
        "rate": (429, {"object": "error", "message": "Rate limit exceeded", "type": "rate_limited", "code": "1300"}),
        "server": (500, {"object": "error", "message": "Service unavailable", "type": "internal_server_error"}),
        "too_long": (
            400,
            {
                "object": "error",
                "message": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum"
                " context length",
                "type": "invalid_request_prompt",
                "code": "3051",
            },
        ),
        "filtered": (403, {"object": "error", "message": "The prompt was flagged by moderation", "type": "moderation"}),
    }

    def variables(self, base: str) -> dict[str, str]:
        return {"MISTRAL_AZURE_API_BASE": f"{base}/v1", "MISTRAL_API_KEY": KEY}

    def check_body(self, body: dict[str, Any]) -> bool:
        for message in body["messages"]:
            ids = [call["id"] for call in message.get("tool_calls") or ()]
            ids += [message["tool_call_id"]] if message["role"] == "tool" else []
            require(
                all(re.fullmatch("[a-zA-Z0-9]{9}", call_id) for call_id in ids),
                f"Tool call id was {ids} but must be a-z, A-Z, 0-9, with a length of 9.",
            )
        unknown = {"stream_options", "max_completion_tokens", "parallel_tool_calls"} & set(body)
        require(not unknown - {"parallel_tool_calls"}, f"Extra inputs are not permitted: {unknown}")
        return super().check_body(body)

    def call_id(self, place: int) -> str:
        return f"abcdefgh{place}"

    def stream_end(self, frame: dict[str, Any], end: dict[str, Any], usage: dict[str, Any]) -> Iterator[str]:
        return events({**frame, "choices": [end], "usage": usage})
