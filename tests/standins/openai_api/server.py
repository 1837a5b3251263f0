"""The server: checks each request as the real API would, then plays what the script says."""

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

from aiohttp import web

from tests.standins.openai_api import render, rules
from tests.standins.openai_api.script import (
    Answer,
    Body,
    Fault,
    Received,
    Reply,
    Script,
    ScriptFunction,
    echo,
    from_json,
    from_list,
)
from tests.standins.stand_in import StandIn

JSON_TYPE = "application/json"
VOICES = ("alloy", "coral", "nova")
# What begins like sound: WAV, Ogg, MP3.
SOUNDS = (b"RIFF", b"OggS", b"ID3")
SOUND = b"ID3\x04\x00\x00\x00\x00\x00\x00" + bytes(64)


class OpenAIStub(StandIn):
    """A model API on loopback, open as long as its `async with` block.

    `windows` are the tokens that fit into a model, by its name; longer requests are refused as the real API does.
    `drawings` are the requests for images, answered with `drawing` (Base64) and `drawing_usage`.
    `recordings` are the requests for transcripts without their sound, answered with what `transcripts` has for the
    name of the file or with `transcript`, and with `transcript_usage`, or with `recording_fault`; `speeches` those for
    speech, answered with `sound`.
    `requests` is the journal of chat requests, `embeddings` that of embedding requests; both forget the oldest beyond
    `keep`. `running` and `peak` count chat requests in progress, `abandoned` those whose caller disconnected.
    `before_embedding` is awaited before each answer to an embedding request, then `embedding_fault` may answer with a
    fault; `embedding_peak` counts the embedding requests in progress.
    """

    def __init__(
        self,
        script: Script | None = None,
        *,
        port: int = 0,
        api_key: str | None = None,
        models: tuple[str, ...] | None = None,
        keep: int = 10_000,
    ) -> None:
        super().__init__(web.Server(self._serve, handler_cancellation=True, access_log=None), port, shutdown_timeout=1)
        self.requests: deque[Received] = deque(maxlen=keep)
        self.embeddings: deque[Received] = deque(maxlen=keep)
        self.running = self.peak = self.abandoned = self.count = 0
        self.windows: dict[str, int] = {}
        self.drawings: list[Body] = []
        self.drawing, self.drawing_usage = render.PIXEL, dict[str, Any]()
        self.recordings: list[Body] = []
        self.recording_fault: Fault | None = None
        self.speeches: list[Body] = []
        self.transcripts: dict[str, str] = {}
        self.transcript, self.transcript_usage, self.sound = "Good morning.", dict[str, Any](), SOUND
        self.embedding_fault: Callable[[Body], Fault | None] = _no_fault
        self.before_embedding: Callable[[Body], Awaitable[None]] = _go_on
        self.embedding_running = self.embedding_peak = 0
        self._api_key, self._models = api_key, models
        self._mark = uuid4().hex[:8]
        self._closing = asyncio.Event()
        self._routes: dict[tuple[str, str], Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]] = {
            ("POST", "/v1/chat/completions"): self._chat,
            ("POST", "/v1/embeddings"): self._embed,
            ("POST", "/v1/images/generations"): self._draw,
            ("POST", "/v1/audio/transcriptions"): self._transcribe,
            ("POST", "/v1/audio/speech"): self._speak,
            ("GET", "/v1/models"): self._list_models,
            ("POST", "/_script"): self._take_script,
            ("GET", "/_journal"): self._show_journal,
        }
        self.script: ScriptFunction
        self.play(script)

    async def close(self) -> None:
        self._closing.set()

    @property
    def base_url(self) -> str:
        """Return what `OPENAI_BASE_URL` is set to."""
        return f"{self.base}/v1"

    @property
    def refusals(self) -> list[str]:
        """Return why requests of the journal were refused."""
        return [request.refusal for request in [*self.requests, *self.embeddings] if request.refusal is not None]

    def play(self, script: Script | None) -> None:
        """Replace the script; None makes the stand-in echo."""
        self.script = echo if script is None else script if callable(script) else from_list(script)

    async def until(self, count: int) -> None:
        """Wait until `count` chat requests have arrived in total."""
        async with self.changed:
            await self.changed.wait_for(lambda: self.count >= count)

    async def until_idle(self) -> None:
        """Wait until no chat request is in progress."""
        async with self.changed:
            await self.changed.wait_for(lambda: self.running == 0)

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        answer = self._routes.get((request.method, request.path))
        if answer is None:
            return _error(404, f"Invalid URL ({request.method} {request.path})", code="unknown_url")
        if request.path.startswith("/v1") and not self._is_allowed(request.headers.get("Authorization")):
            return _error(401, "Incorrect API key provided.", code="invalid_api_key")
        return await answer(request)

    def _is_allowed(self, bearer: str | None) -> bool:
        return self._api_key is None or bearer == f"Bearer {self._api_key}"

    async def _chat(self, request: web.BaseRequest) -> web.StreamResponse:
        raw = await request.content.read()
        self.count += 1
        number = self.count
        body, response = _parsed(raw)
        if response is None and self._models is not None and body["model"] not in self._models:
            response = _error(404, f"The model `{body['model']}` does not exist.", "model", "model_not_found")
        refusal = None if response is None else json.loads(response.text or "")["error"]["message"]
        self.requests.append(Received(number, request.path, body, raw, request.headers, refusal))
        await self.tell()
        if response is not None:
            return response
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            return await self._played(request, body, raw, number)
        except asyncio.CancelledError:
            self.abandoned += 1
            raise
        finally:
            self.running -= 1
            await self.tell()

    async def _played(self, request: web.BaseRequest, body: Body, raw: bytes, number: int) -> web.StreamResponse:
        chosen = self.script(body, number)
        reply: Reply = chosen if isinstance(chosen, (Answer, Fault)) else await chosen
        if reply.delay:
            await asyncio.sleep(reply.delay)
        if (too_long := rules.too_long(body, self.windows.get(body["model"]))) is not None:
            return _error(400, too_long, "messages", "context_length_exceeded")
        mark = f"call_{self._mark}_{number}"
        if isinstance(reply, Fault):
            return await self._broken(request, reply, body, raw, mark)
        if body.get("stream"):
            return await _stream(request, render.chunks(reply, body, len(raw), mark), reply)
        return web.Response(body=render.whole(reply, body, len(raw), mark), content_type=JSON_TYPE)

    async def _broken(
        self, request: web.BaseRequest, fault: Fault, body: Body, raw: bytes, mark: str
    ) -> web.StreamResponse:
        if fault.hang:
            await self._closing.wait()
        if fault.hang or fault.drop:
            return _hung_up(request)
        if fault.cut_after_chunks is not None:
            pieces = render.chunks(fault.answer, body, len(raw), mark)[: fault.cut_after_chunks]
            response = await _stream(request, pieces, fault.answer)
            return response if fault.is_clean else _hung_up(request)
        if fault.malformed:
            return web.Response(body=b'{"id": "chatcmpl-broken", "choices": [{"mess', content_type=JSON_TYPE)
        if fault.empty:
            nothing = Answer("")
            if body.get("stream"):
                return await _stream(request, render.chunks(nothing, body, len(raw), mark), nothing)
            return web.Response(body=render.whole(nothing, body, len(raw), mark), content_type=JSON_TYPE)
        return _failed(fault)

    async def _embed(self, request: web.BaseRequest) -> web.StreamResponse:
        raw = await request.content.read()
        body = json.loads(raw)
        inputs = body.get("input")
        texts = [inputs] if isinstance(inputs, str) else inputs
        refusal = _embedding_fault(body, texts)
        entry = Received(len(self.embeddings) + 1, request.path, body, raw, request.headers, refusal)
        self.embeddings.append(entry)
        if refusal is not None:
            return _error(400, refusal, "input")
        self.embedding_running += 1
        self.embedding_peak = max(self.embedding_peak, self.embedding_running)
        try:
            return await self._embedded(request, body, texts, raw)
        finally:
            self.embedding_running -= 1

    async def _embedded(self, request: web.BaseRequest, body: Body, texts: list[str], raw: bytes) -> web.StreamResponse:
        await self.before_embedding(body)
        if (fault := self.embedding_fault(body)) is not None:
            return await self._broken(request, fault, body, raw, "")
        dimensions, encoding = body.get("dimensions", render.DIMENSIONS), body.get("encoding_format", "float")
        vectors = [
            {"object": "embedding", "index": index, "embedding": render.embedding(text, dimensions, encoding)}
            for index, text in enumerate(texts)
        ]
        tokens = max(1, len(raw) // 4)
        spent = {"prompt_tokens": tokens, "total_tokens": tokens}
        return web.json_response({"object": "list", "data": vectors, "model": body["model"], "usage": spent})

    async def _draw(self, request: web.BaseRequest) -> web.StreamResponse:
        body = json.loads(await request.content.read())
        self.drawings.append(body)
        if "forbidden" in body["prompt"]:
            return _error(400, "Your request was rejected by the safety system.", "prompt", "moderation_blocked")
        return web.json_response({"created": 1, "data": [{"b64_json": self.drawing}], **self.drawing_usage})

    async def _transcribe(self, request: web.BaseRequest) -> web.StreamResponse:
        form = await request.post()
        file = form.get("file")
        if not isinstance(file, web.FileField) or not form.get("model"):
            return _error(400, "you must provide a model and a file", "file")
        content = file.file.read()
        fields = {name: value for name, value in form.items() if isinstance(value, str)}
        self.recordings.append({**fields, "filename": file.filename, "bytes": len(content)})
        if self.recording_fault is not None:
            return _failed(self.recording_fault)
        if not content.startswith(SOUNDS):
            return _error(400, "Invalid file format.", "file")
        transcript = self.transcripts.get(file.filename, self.transcript)
        return web.json_response({"text": transcript, **self.transcript_usage})

    async def _speak(self, request: web.BaseRequest) -> web.StreamResponse:
        body = json.loads(await request.content.read())
        self.speeches.append(body)
        if not body.get("input") or not body.get("model") or body.get("voice") not in VOICES:
            return _error(400, "Invalid value for voice or input.", "voice")
        return web.Response(body=self.sound, content_type="audio/mpeg")

    async def _list_models(self, _request: web.BaseRequest) -> web.StreamResponse:
        names = self._models or ("stand-in",)
        models = [{"id": name, "object": "model", "created": 0, "owned_by": "tests"} for name in names]
        return web.json_response({"object": "list", "data": models})

    async def _take_script(self, request: web.BaseRequest) -> web.StreamResponse:
        entries = json.loads(await request.content.read())
        self.play(from_json(entries) if entries else None)
        return web.json_response({"entries": len(entries)})

    async def _show_journal(self, _request: web.BaseRequest) -> web.StreamResponse:
        requests = [
            {"number": request.number, "body": request.body, "refusal": request.refusal} for request in self.requests
        ]
        return web.json_response({"requests": requests, "running": self.running, "peak": self.peak})


def _parsed(raw: bytes) -> tuple[Body, web.Response | None]:
    try:
        body = json.loads(raw.decode("utf-8"))
        rules.check(body)
    except ValueError as error:
        return {}, _error(400, f"We could not parse the JSON body of your request: {error}")
    except rules.Refused as refusal:
        return body if isinstance(body, dict) else {}, _error(400, str(refusal), refusal.param, refusal.code)
    return body, None


async def _go_on(_body: Body) -> None:
    return


def _no_fault(_body: Body) -> Fault | None:
    return None


def _embedding_fault(body: Any, texts: Any) -> str | None:
    if not isinstance(body, dict) or not body.get("model"):
        return "you must provide a model parameter"
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text for text in texts):
        return "'$.input' is invalid."
    return None


async def _stream(request: web.BaseRequest, pieces: list[bytes], answer: Answer) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    if not answer.chunk_delay and answer.end is None:
        await response.write(b"".join(pieces))
        return response
    for number, piece in enumerate(pieces, start=1):
        if answer.end is not None and number == len(pieces):
            await answer.end.wait()
        await response.write(piece)
        await asyncio.sleep(answer.chunk_delay)
    return response


def _hung_up(request: web.BaseRequest) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.close()
    # Never reaches the caller, because the connection is closed.
    return web.Response(status=500)


def _failed(fault: Fault) -> web.Response:
    headers = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
    if fault.body is None:
        return _error(fault.status, f"The stand-in was told to answer {fault.status}.", headers=headers)
    if isinstance(fault.body, str):
        return web.Response(text=fault.body, status=fault.status, headers=headers)
    return web.json_response(dict(fault.body), status=fault.status, headers=headers)


def _error(
    status: int, message: str, param: str | None = None, code: str | None = None, headers: dict[str, str] | None = None
) -> web.Response:
    kind = {401: "authentication_error", 429: "rate_limit_error"}.get(
        status, "server_error" if status >= 500 else "invalid_request_error"
    )
    error = {"message": message, "type": kind, "param": param, "code": code}
    return web.json_response({"error": error}, status=status, headers=headers)
