"""The server: checks each request by the provider's rules, and sends the next reply of the script."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.standins.providers.formats import Answer, Format, WrongPath, WrongRequest
from tests.standins.stand_in import StandIn


@dataclass(frozen=True, slots=True)
class Failure:
    """An error, as the provider words it: `key`, `rate`, `server`, `too_long` or `filtered`."""

    kind: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Silence:
    """No answer at all, until the caller hangs up."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A connection that is lost in the middle of a streamed answer."""

    answer: Answer


Reply = Answer | Failure | Silence | Broken


class ProviderStub(StandIn):
    """A provider of one format; the last reply of the script is repeated."""

    def __init__(self, wire: Format, replies: Sequence[Reply]) -> None:
        super().__init__(web.Server(self._serve, handler_cancellation=True), 0)
        self.wire, self.replies = wire, list(replies)
        self.requests: list[dict[str, Any]] = []
        self.refusals: list[str] = []

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        body = json.loads(await request.read() or b"{}")
        try:
            is_streamed = self.wire.check(request, body)
        except WrongPath:
            return web.json_response({"error": {"message": "not found"}}, status=404)
        except WrongRequest as wrong:
            self.refusals.append(str(wrong))
            return web.json_response({"error": {"message": str(wrong)}}, status=400)
        reply = self.replies[min(len(self.requests), len(self.replies) - 1)]
        self.requests.append(body)
        if isinstance(reply, Silence):
            await asyncio.Event().wait()
        if isinstance(reply, Failure):
            status, error = self.wire.errors[reply.kind]
            return web.json_response(error, status=status, headers=dict(reply.headers))
        answer = reply.answer if isinstance(reply, Broken) else reply
        assert isinstance(answer, Answer)
        if not is_streamed:
            return web.json_response(self.wire.render(answer))
        pieces = [piece.encode() for piece in self.wire.stream(answer)]
        response = web.StreamResponse(headers={"Content-Type": self.wire.stream_type})
        await response.prepare(request)
        for piece in pieces[:2] if isinstance(reply, Broken) else pieces:
            await response.write(piece)
        if isinstance(reply, Broken) and request.transport is not None:
            request.transport.close()
            return response
        await response.write_eof()
        return response
