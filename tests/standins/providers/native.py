"""The wire formats that are not OpenAI's."""

import json
import re
from collections.abc import Iterator
from typing import Any, ClassVar

from aiohttp import web

from tests.standins.providers.formats import KEY, MODEL, Answer, Format, events, require, require_path


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
        require_path(request.path == "/v1/messages", request)
        require(request.headers.get("x-api-key") == KEY, "no key")
        require(request.headers.get("anthropic-version"), "anthropic-version: header is required")
        require(body.get("max_tokens"), "max_tokens: Field required")
        roles = [message["role"] for message in body["messages"]]
        require(set(roles) <= {"user", "assistant"} and roles[0] == "user", f"unexpected roles {roles}")
        calls = {part["id"] for part in self._parts(body) if part["type"] == "tool_use"}
        results = {part["tool_use_id"] for part in self._parts(body) if part["type"] == "tool_result"}
        require(calls == results, "`tool_use` ids were found without `tool_result` blocks")
        require(not calls or body.get("tools"), "Requests which include `tool_use` blocks must define tools")
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
        require_path(match, request)
        require(KEY in {request.headers.get("x-goog-api-key"), request.query.get("key")}, "no key")
        roles = [content["role"] for content in body["contents"]]
        require(set(roles) <= {"user", "model"}, f"unexpected roles {roles}")
        is_streamed = match is not None and match[1] == "streamGenerateContent"
        require(not is_streamed or request.query.get("alt") == "sse", "the stream is asked for as an array")
        return is_streamed

    def render(self, answer: Answer) -> Any:
        parts: list[dict[str, Any]] = [{"text": answer.text}] if answer.text else []
        parts += [{"functionCall": {"name": name, "args": args}} for name, args in answer.calls]
        return self._chunk(answer, parts, self.stops[answer.stop])

    def stream(self, answer: Answer) -> Iterator[str]:
        chunks = [self._chunk(answer, [{"text": piece}], None) for piece in answer.halves]
        calls = [{"functionCall": {"name": name, "args": args}} for name, args in answer.calls]
        chunks.append(self._chunk(answer, calls or [{"text": ""}], self.stops[answer.stop]))
        return events(*chunks)

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
        require_path(request.path == "/api/chat", request)
        for message in body["messages"]:
            for call in message.get("tool_calls") or ():
                require(isinstance(call["function"]["arguments"], dict), "arguments are an object")
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
