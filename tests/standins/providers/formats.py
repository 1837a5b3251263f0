"""The wire formats: what each provider asks of a request, and how it words answers and errors."""

import json
import re
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


def _require(holds: Any, what: str) -> None:
    if not holds:
        raise WrongRequest(what)


def _require_path(holds: Any, request: web.BaseRequest) -> None:
    if not holds:
        raise WrongPath(request.path)


def _events(*chunks: Any) -> Iterator[str]:
    return (f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)


class Format:
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

    def variables(self, base: str) -> dict[str, str]:
        """Return the environment of an installation that uses this provider."""
        raise NotImplementedError

    def settings(self, base: str) -> Settings:  # only OpenAI's server is one of ours
        """Return the settings of an installation that uses this provider."""
        return Settings(llm_models=(self.model,))

    def check(self, request: web.BaseRequest, body: dict[str, Any]) -> bool:
        """Return whether the answer is to be streamed; raises `WrongRequest`."""
        raise NotImplementedError

    def render(self, answer: Answer) -> Any:
        """Return a whole answer."""
        raise NotImplementedError

    def stream(self, answer: Answer) -> Iterator[str]:
        """Return the pieces of a streamed answer; after the first two there is no end yet."""
        raise NotImplementedError

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
        _require_path(request.path == "/v1/chat/completions", request)
        _require(request.headers.get("Authorization") == f"Bearer {KEY}", "no key")
        return self.check_body(body)

    def check_body(self, body: dict[str, Any]) -> bool:
        """Check what the servers with OpenAI's format have in common."""
        calls = {call["id"] for message in body["messages"] for call in message.get("tool_calls") or ()}
        for message in body["messages"]:
            _require(message["role"] != "tool" or message["tool_call_id"] in calls, "a result without its call")
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
        yield from _events(
            *({**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas)
        )
        end = {"index": 0, "delta": {}, "finish_reason": self._stop(answer)}
        yield from self.stream_end(frame, end, self._usage(answer))
        yield "data: [DONE]\n\n"

    def stream_end(self, frame: dict[str, Any], end: dict[str, Any], usage: dict[str, Any]) -> Iterator[str]:
        """Return the last chunks, of which OpenAI's very last has the usage alone."""
        return _events({**frame, "choices": [end]}, {**frame, "choices": [], "usage": usage})

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
        _require_path(request.path == f"/openai/deployments/{MODEL}/chat/completions", request)
        _require(request.query.get("api-version") == "2024-10-21", "no api-version")
        _require(request.headers.get("api-key") == KEY, "no key")
        return self.check_body(body)

    def stream(self, answer: Answer) -> Iterator[str]:
        # The first chunk has what the filter says of the prompt, and no choice.
        yield from _events(
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
            _require(
                all(re.fullmatch("[a-zA-Z0-9]{9}", call_id) for call_id in ids),
                f"Tool call id was {ids} but must be a-z, A-Z, 0-9, with a length of 9.",
            )
        unknown = {"stream_options", "max_completion_tokens", "parallel_tool_calls"} & set(body)
        _require(not unknown - {"parallel_tool_calls"}, f"Extra inputs are not permitted: {unknown}")
        return super().check_body(body)

    def call_id(self, place: int) -> str:
        return f"abcdefgh{place}"

    def stream_end(self, frame: dict[str, Any], end: dict[str, Any], usage: dict[str, Any]) -> Iterator[str]:
        return _events({**frame, "choices": [end], "usage": usage})


class Anthropic(Format):
    """Anthropic's messages."""

    name = "anthropic"
    model = f"anthropic/claude-{MODEL}"
    stops: ClassVar = {"end": "end_turn", "length": "max_tokens", "filter": "refusal"}
    errors: ClassVar = {
        "key": (401, {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}}),
        "rate": (429, {"type": "error", "error": {"type": "rate_limit_error", "message": "exceeds your rate limit"}}),
        "server": (500, {"type": "error", "error": {"type": "api_error", "message": "Internal server error"}}),
        "too_long": (
            400,
            {
                "type": "error",
                "error": {
                    "type": "invalid_request_error",
                    "message": "prompt is too long: 210000 tokens > 200000 maximum",
                },
            },
        ),
        "filtered": (
            400,
            {
                "type": "error",
                "error": {"type": "invalid_request_error", "message": "Output blocked by content filtering policy"},
            },
        ),
    }

    def variables(self, base: str) -> dict[str, str]:
        return {"ANTHROPIC_API_BASE": base, "ANTHROPIC_API_KEY": KEY}

    def check(self, request: web.BaseRequest, body: dict[str, Any]) -> bool:
        _require_path(request.path == "/v1/messages", request)
        _require(request.headers.get("x-api-key") == KEY, "no key")
        _require(request.headers.get("anthropic-version"), "anthropic-version: header is required")
        _require(body.get("max_tokens"), "max_tokens: Field required")
        roles = [message["role"] for message in body["messages"]]
        _require(set(roles) <= {"user", "assistant"} and roles[0] == "user", f"unexpected roles {roles}")
        calls = {part["id"] for part in self._parts(body) if part["type"] == "tool_use"}
        results = {part["tool_use_id"] for part in self._parts(body) if part["type"] == "tool_result"}
        _require(calls == results, "`tool_use` ids were found without `tool_result` blocks")
        _require(not calls or body.get("tools"), "Requests which include `tool_use` blocks must define tools")
        return bool(body.get("stream"))

    @staticmethod
    def _parts(body: dict[str, Any]) -> list[dict[str, Any]]:
        return [
            part for message in body["messages"] if isinstance(message["content"], list) for part in message["content"]
        ]

    def render(self, answer: Answer) -> Any:
        content: list[dict[str, Any]] = [{"type": "text", "text": answer.text}] if answer.text else []
        content += [
            {"type": "tool_use", "id": f"toolu_{place}", "name": name, "input": args}
            for place, (name, args) in enumerate(answer.calls)
        ]
        return {**self._frame(answer, content), "stop_reason": self._stop(answer)}

    def stream(self, answer: Answer) -> Iterator[str]:
        start = {"type": "message_start", "message": {**self._frame(answer, []), "stop_reason": None}}
        blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
        if answer.text:
            deltas = [{"type": "text_delta", "text": piece} for piece in answer.halves]
            blocks.append(({"type": "text", "text": ""}, deltas))
        for place, (name, args) in enumerate(answer.calls):
            text = json.dumps(args)
            blocks.append(
                (
                    {"type": "tool_use", "id": f"toolu_{place}", "name": name, "input": {}},
                    [{"type": "input_json_delta", "partial_json": piece} for piece in ("", text[:3], text[3:])],
                )
            )
        events: list[dict[str, Any]] = [start]
        for index, (block, deltas) in enumerate(blocks):
            events.append({"type": "content_block_start", "index": index, "content_block": block})
            events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
            events.append({"type": "content_block_stop", "index": index})
        delta = {"stop_reason": self._stop(answer), "stop_sequence": None}
        events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": answer.output}})
        events.append({"type": "message_stop"})
        return (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)

    def _frame(self, answer: Answer, content: list[Any]) -> dict[str, Any]:
        # What comes from the cache is not counted as input.
        usage = {
            "input_tokens": answer.input - answer.cached,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": answer.cached,
            "output_tokens": answer.output,
        }
        frame = {"id": "msg_1", "type": "message", "role": "assistant", "model": f"claude-{MODEL}", "content": content}
        return {**frame, "stop_sequence": None, "usage": usage}

    def _stop(self, answer: Answer) -> str:
        return "tool_use" if answer.calls and answer.stop == "end" else self.stops[answer.stop]

    def results(self, body: dict[str, Any]) -> list[str]:
        results = [part["content"] for part in self._parts(body) if part["type"] == "tool_result"]
        return [part if isinstance(part, str) else part[0]["text"] for part in results]

    def tool_names(self, body: dict[str, Any]) -> list[str]:
        return [tool["name"] for tool in body.get("tools", ())]


class Gemini(Format):
    """Google's Gemini API: errors without `Retry-After`, and 400 for a wrong key."""

    name = "gemini"
    model = f"gemini/{MODEL}"
    stops: ClassVar = {"end": "STOP", "length": "MAX_TOKENS", "filter": "SAFETY"}
    errors: ClassVar = {
        "key": (
            400,
            {
                "error": {
                    "code": 400,
                    "message": "API key not valid. Please pass a valid API key.",
                    "status": "INVALID_ARGUMENT",
                    "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}],
                }
            },
        ),
        "rate": (
            429,
            {
                "error": {
                    "code": 429,
                    "message": "You exceeded your current quota. Please retry in 30s.",
                    "status": "RESOURCE_EXHAUSTED",
                    "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "30s"}],
                }
            },
        ),
        "server": (500, {"error": {"code": 500, "message": "An internal error has occurred.", "status": "INTERNAL"}}),
        "too_long": (
            400,
            {
                "error": {
                    "code": 400,
                    "message": "The input token count (1200000) exceeds the maximum number of tokens allowed"
                    " (1048576).",
                    "status": "INVALID_ARGUMENT",
                }
            },
        ),
    }

    def variables(self, base: str) -> dict[str, str]:
        return {"GEMINI_API_BASE": f"{base}/v1beta", "GEMINI_API_KEY": KEY}

    def check(self, request: web.BaseRequest, body: dict[str, Any]) -> bool:
        match = re.fullmatch(rf"/v1beta/models/{MODEL}:(generateContent|streamGenerateContent)", request.path)
        _require_path(match, request)
        _require(KEY in {request.headers.get("x-goog-api-key"), request.query.get("key")}, "no key")
        roles = [content["role"] for content in body["contents"]]
        _require(set(roles) <= {"user", "model"}, f"unexpected roles {roles}")
        is_streamed = match is not None and match[1] == "streamGenerateContent"
        _require(not is_streamed or request.query.get("alt") == "sse", "the stream is asked for as an array")
        return is_streamed

    def render(self, answer: Answer) -> Any:
        parts: list[dict[str, Any]] = [{"text": answer.text}] if answer.text else []
        parts += [{"functionCall": {"name": name, "args": args}} for name, args in answer.calls]
        return self._chunk(answer, parts, self.stops[answer.stop])

    def stream(self, answer: Answer) -> Iterator[str]:
        chunks = [self._chunk(answer, [{"text": piece}], None) for piece in answer.halves]
        calls = [{"functionCall": {"name": name, "args": args}} for name, args in answer.calls]
        chunks.append(self._chunk(answer, calls or [{"text": ""}], self.stops[answer.stop]))
        return _events(*chunks)

    @staticmethod
    def _chunk(answer: Answer, parts: list[dict[str, Any]], stop: str | None) -> dict[str, Any]:
        candidate: dict[str, Any] = {"index": 0}
        if parts:
            candidate["content"] = {"role": "model", "parts": parts}
        if stop is not None:
            candidate["finishReason"] = stop
        usage = {
            "promptTokenCount": answer.input,
            "cachedContentTokenCount": answer.cached,
            "candidatesTokenCount": answer.output,
            "totalTokenCount": answer.input + answer.output,
        }
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": MODEL, "responseId": "r1"}

    def results(self, body: dict[str, Any]) -> list[str]:
        parts = [part for content in body["contents"] for part in content["parts"]]
        return [json.dumps(part["function_response"]["response"]) for part in parts if "function_response" in part]

    def tool_names(self, body: dict[str, Any]) -> list[str]:
        return [
            function["name"]
            for tool in body.get("tools", ())
            for function in tool.get("functionDeclarations") or tool.get("function_declarations") or ()
        ]


class Ollama(Format):
    """Ollama's own protocol: a JSON object on each line, arguments as objects, no ids and no cached tokens."""

    name = "ollama"
    model = f"ollama_chat/{MODEL}"
    stream_type = "application/x-ndjson"
    reports_cached = False
    errors: ClassVar = {
        "key": (401, {"error": "unauthorized"}),
        "rate": (429, {"error": "too many concurrent requests"}),
        "server": (500, {"error": "llama runner process has terminated"}),
        "too_long": (400, {"error": "the request exceeds the available context size (4096 tokens)"}),
    }

    def variables(self, base: str) -> dict[str, str]:
        return {"OLLAMA_API_BASE": base, "OLLAMA_API_KEY": KEY}

    def check(self, request: web.BaseRequest, body: dict[str, Any]) -> bool:
        _require_path(request.path == "/api/chat", request)
        for message in body["messages"]:
            for call in message.get("tool_calls") or ():
                _require(isinstance(call["function"]["arguments"], dict), "arguments are an object")
        return bool(body.get("stream", True))

    def render(self, answer: Answer) -> Any:
        return {**self._line(answer.text, answer.calls), **self._end(answer)}

    def stream(self, answer: Answer) -> Iterator[str]:
        lines = [self._line(piece) for piece in answer.halves]
        if answer.calls:
            lines.append(self._line("", answer.calls))
        lines.append({**self._line(""), **self._end(answer)})
        return (json.dumps(line) + "\n" for line in lines)

    @staticmethod
    def _line(text: str, calls: tuple[tuple[str, dict[str, Any]], ...] = ()) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = [{"function": {"name": name, "arguments": args}} for name, args in calls]
        return {"model": MODEL, "created_at": "2026-05-05T12:00:00.000000Z", "message": message, "done": False}

    @staticmethod
    def _end(answer: Answer) -> dict[str, Any]:
        reason = "length" if answer.stop == "length" else "stop"
        counts = {"prompt_eval_count": answer.input, "eval_count": answer.output, "total_duration": 1}
        return {"done": True, "done_reason": reason, **counts}


FORMATS: Mapping[str, Format] = {
    wire.name: wire
    for wire in (OpenAI(), HostedVLLM(), OpenRouter(), Azure(), Mistral(), Anthropic(), Gemini(), Ollama())
}
