"""The connection to one MCP server: opened in the background, checked regularly, reopened when it is lost."""

import asyncio
import hashlib
import json
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from shared.credentials.row_secrets import filled_in
from shared.errors import ToolError, Unavailable
from shared.log import get_logger
from shared.messages import Permission
from shared.settings import MCP_PREFIX
from shared.text import clean, clean_json, cut

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client import Transport
    from mcp_types import CallToolResult


CONNECT_SECONDS = 20.0
LIST_SECONDS = 10.0
# Listing the tools is also the health check, because the newest protocol version has no ping.
HEALTH_SECONDS = 30.0
RECONNECT_WAIT_SECONDS = 5.0
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 60.0
# A connection that lasted longer than this resets the backoff.
LONG_LIFE_SECONDS = 30.0
END_SECONDS = 6.0
MAX_PAGES = 20
MAX_TOOLS = 1000
MAX_NAME_CHARS = 200

log = get_logger()
# The SDK logs the full text of server messages; we log our own events instead.
logging.getLogger("mcp.client").setLevel(logging.CRITICAL)


@dataclass(frozen=True, slots=True)
class Server:
    """A row of `mcp_servers`."""

    id: int
    name: str
    transport: str
    command: str | None
    args: Sequence[str]
    env: Mapping[str, str] = field(repr=False)
    url: str | None
    headers: Mapping[str, str] = field(repr=False)
    permission: Permission
    read_only_tools: Sequence[str]
    tells_nobody_tools: Sequence[str]
    timeout_seconds: float
    tells_user: bool
    reads_untrusted: bool
    reads_private: bool

    @classmethod
    def from_row(cls, row: Any) -> "Server":
        """Return the server of a row."""
        return cls(
            id=row.id,
            name=row.name,
            transport=row.transport,
            command=row.command,
            args=row.args,
            env=row.env,
            url=row.url,
            headers=row.headers,
            permission=Permission.from_label(row.required_permission),
            read_only_tools=row.read_only_tools,
            tells_nobody_tools=row.tells_nobody_tools,
            timeout_seconds=row.timeout_seconds,
            tells_user=row.tells_user,
            reads_untrusted=row.reads_untrusted,
            reads_private=row.reads_private,
        )

    @property
    def address(self) -> tuple[object, ...]:
        """Return the values that define the connection: when one of them changes, the server is reconnected."""
        return (self.transport, self.command, self.args, self.env, self.url, self.headers)


class Listed(Struct, frozen=True):
    """A tool as a server lists it. `hash` covers name, description and schema, so any change needs a new approval."""

    name: str
    hash: str
    description: str
    input_schema: Mapping[str, Any]

    def __hash__(self) -> int:
        """Return a value from the hash alone: a schema has none."""
        return hash(self.hash)


def to_listed(name: str, description: str, input_schema: Mapping[str, Any]) -> Listed:
    """Return the listed tool with its hash."""
    definition = json.dumps([name, description, input_schema], sort_keys=True)
    return Listed(
        name, hashlib.sha256(definition.encode()).hexdigest(), description=description, input_schema=input_schema
    )


OnListed = Callable[[Server, Sequence[Listed]], Awaitable[None]]
OnLost = Callable[[Server, str], Awaitable[None]]


class Connection:
    """Keeps one server connected, in a background task, until `close`; only tool calls wait for the connection."""

    def __init__(self, server: Server, on_listed: OnListed, on_lost: OnLost) -> None:
        self.server = server
        self._on_listed, self._on_lost = on_listed, on_lost
        self._client: Client | None = None
        self._connected = asyncio.Event()
        self._nudged = asyncio.Event()
        self._reason = ""
        self._stood_at: float | None = None
        self._task = asyncio.create_task(self._keep(), name=f"MCP server {server.name}")

    async def close(self) -> None:
        """Close the connection and end the server's process, if it has one; waits at most `END_SECONDS`."""
        self._task.cancel()
        await asyncio.wait({self._task}, timeout=END_SECONDS)

    def look_again(self) -> None:
        """List the server's tools now instead of at the next health check."""
        self._nudged.set()

    async def call(self, name: str, arguments: Mapping[str, Any], meta: Mapping[str, Any]) -> "CallToolResult":
        """Call a tool; waits up to `RECONNECT_WAIT_SECONDS` for a connection that is being reopened.

        Raises `Unavailable` if the server can't be reached, `ToolError` with the server's message if it returns an
        error.
        """
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED, CallToolRequest, CallToolRequestParams, CallToolResult
        from pydantic import ValidationError

        try:
            async with asyncio.timeout(RECONNECT_WAIT_SECONDS):
                await self._connected.wait()
        except TimeoutError:
            raise self._unavailable() from None
        if self._client is None:
            raise self._unavailable()
        client = self._client
        params = CallToolRequestParams.model_validate(
            {"name": name, "arguments": dict(arguments), **({"_meta": dict(meta)} if meta else {})}
        )
        try:
            # The client's own `call_tool` would validate the result with the server's schema, and so run the server's
            # regular expressions.
            return await client.session.send_request(CallToolRequest(params=params), CallToolResult)
        except MCPError as error:
            self.look_again()
            if error.code == CONNECTION_CLOSED:
                self._lose()
                raise self._unavailable() from None
            return _answered(self.server, error.code, message=error.message, excerpt=error.data)
        except ValidationError:
            raise ToolError(f"The MCP server {self.server.name} answered with something that is no result.") from None

    def _unavailable(self) -> Unavailable:
        return Unavailable(f"The MCP server {self.server.name} can't be reached just now.")

    def _lose(self) -> None:
        self._connected.clear()
        self._client = None

    async def _keep(self) -> None:
        failures = 0
        while True:
            attempt = asyncio.create_task(self._attempt(), name=f"connection to {self.server.name}")
            try:
                await asyncio.wait({attempt})
            finally:
                if not attempt.done():
                    attempt.cancel()
                    await asyncio.wait({attempt}, timeout=END_SECONDS)
            self._lose()
            age = 0.0 if self._stood_at is None else asyncio.get_running_loop().time() - self._stood_at
            failures = 0 if age > LONG_LIFE_SECONDS else failures + 1
            error = None if attempt.cancelled() else attempt.exception()
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            reason = str(error) if error is not None else ""
            if isinstance(error, TimeoutError):
                reason = f"It did not answer within {CONNECT_SECONDS:.0f} seconds."
            log.warning("mcp_server_lost", server=self.server.name, failures=failures)
            if self._stood_at is None:
                # After a successful connection the tools stay available until a reconnection fails.
                reason = f"{reason or type(error).__name__} {self._reason}".strip()
                await self._on_lost(self.server, cut(clean(reason), 500))
            pause = FIRST_PAUSE_SECONDS * 2 ** min(failures, 10)
            await asyncio.sleep(min(pause, LONGEST_PAUSE_SECONDS) * random.uniform(0.5, 1))  # noqa: S311  # jitter

    async def _attempt(self) -> None:
        self._reason, self._stood_at = "", None
        self._nudged.clear()
        async with AsyncExitStack() as closing:
            async with asyncio.timeout(CONNECT_SECONDS):
                client = await closing.enter_async_context(self._build_client())
                tools = await list_tools(client)
            self._stood_at = asyncio.get_running_loop().time()
            listening = asyncio.create_task(self._listen(client), name=f"changes of {self.server.name}")
            try:
                await self._watch(client, tools)
            finally:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)

    async def _watch(self, client: "Client", specs: Sequence[Listed]) -> None:
        while True:
            await self._on_listed(self.server, specs)
            self._client = client
            self._connected.set()
            try:
                async with asyncio.timeout(HEALTH_SECONDS):
                    await self._nudged.wait()
            except TimeoutError:
                pass
            self._nudged.clear()
            async with asyncio.timeout(LIST_SECONDS):
                specs = await list_tools(client)

    async def _listen(self, client: "Client") -> None:
        # Newer protocol versions notify only subscribers; other servers are covered by the regular health check.
        async with client.listen(tools_list_changed=True) as changes:
            async for _change in changes:
                self.look_again()

    def _build_client(self) -> "Client":
        from mcp import Client
        from mcp_types import Implementation, ToolListChangedNotification

        from agent.tools.mcp.transports import http_to, pipes_to

        async def on_message(message: object) -> None:
            if isinstance(message, ToolListChangedNotification):
                self.look_again()

        server = self.server
        transport: Transport
        if server.transport == "http":
            transport = http_to(server.url or "", filled_in(server.headers, MCP_PREFIX))
        else:
            environment = filled_in(server.env, MCP_PREFIX)
            transport = pipes_to(server.command or "", server.args, env=environment, on_end=self._end)
        info = Implementation(name="parley", version="1")
        return Client(transport, message_handler=on_message, client_info=info, cache=None)

    def _end(self, reason: str) -> None:
        self._reason = reason
        self.look_again()


async def list_tools(client: "Client") -> list[Listed]:
    """Return the tools of the server, sorted by name, at most `MAX_TOOLS`."""
    specs: dict[str, Listed] = {}
    cursor: str | None = None
    for _page in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        for entry in page.tools:
            tool = to_listed(clean(entry.name), clean(entry.description or ""), clean_json(entry.input_schema))
            if 0 < len(tool.name) <= MAX_NAME_CHARS:
                specs.setdefault(tool.name, tool)
        cursor = page.next_cursor
        if cursor is None or len(specs) >= MAX_TOOLS:
            break
    return sorted(list(specs.values())[:MAX_TOOLS], key=lambda spec: spec.name)


def _answered(server: Server, code: int, message: str, excerpt: Any) -> "CallToolResult":
    from mcp_types import PARSE_ERROR, CallToolResult

    from agent.tools.mcp.transports import MAX_MESSAGE_BYTES, TOO_LONG

    if code == TOO_LONG:
        return CallToolResult(content=[], structured_content={"cut": True, **excerpt})
    if code == PARSE_ERROR:
        what = f"is no JSON or larger than {MAX_MESSAGE_BYTES:,} bytes; ask for less"
        raise ToolError(f"The answer of the MCP server {server.name} {what}.")
    raise ToolError(f"The MCP server {server.name} refused: {cut(clean(message), 1000)}")
