"""A scripted web server on loopback that records its requests and can answer byte by byte."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.support.relay import abort

Answer = Callable[["Request", asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True)
class Request:
    """One request as received, with header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Server:
    """The server's address and its requests."""

    port: int = 0
    requests: list[Request] = field(default_factory=list)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def reply(
    body: bytes = b"", status: int = 200, headers: dict[str, str] | None = None, length: int | None = None
) -> Answer:
    """Answer each request with this body; `length` is the declared Content-Length."""

    async def answer(_request: Request, writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {status} Said", f"Content-Length: {len(body) if length is None else length}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await writer.drain()

    return answer


async def silence(_request: Request, _writer: asyncio.StreamWriter) -> None:
    """Never answer."""
    await asyncio.Event().wait()


def redirect(location: str, status: int = 302) -> Answer:
    """Redirect each request to another URL."""
    return reply(status=status, headers={"Location": location})


def by_path(answers: dict[str, Answer]) -> Answer:
    """Answer by the request's path; others get a 404."""

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        await answers.get(request.path, reply(b"nothing here", 404))(request, writer)

    return answer


@asynccontextmanager
async def serving(
    answer: Answer, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[Server]:
    """Run the server for the block."""
    server = Server()
    tasks: set[asyncio.Task[None]] = set()
    writers: set[asyncio.StreamWriter] = set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await _read(reader)) is not None:
                server.requests.append(request)
                await answer(request, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        tasks.add(asyncio.create_task(talk(reader, writer)))

    listener = await asyncio.start_server(accept, host, 0, ssl=tls)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await abort(writers)


async def _read(reader: asyncio.StreamReader) -> Request | None:
    first = (await reader.readline()).decode()
    if not first:
        return None
    headers = {}
    while line := (await reader.readline()).decode().strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    method, path, _ = first.split(" ", 2)
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, path, headers, body)
