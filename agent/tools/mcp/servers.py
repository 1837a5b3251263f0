"""The tool provider for MCP servers: keeps them connected, records their tools for approval, and admits calls.

Workers keep every enabled server of `mcp_servers` connected in the background. Listed tools are stored in `mcp_tools`
with their hash; only approved ones are offered. The database notifies of changes in both tables, and each call checks
the tables again, so that a tool that has just been disabled does not run.
"""

import asyncio
import json
from collections.abc import Collection, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict

from agent.tools.mcp.connections import Connection, Listed, Server
from agent.tools.providers import ToolProvider
from shared.db.database import Database, DatabaseLost
from shared.db.statements import load_statements
from shared.errors import ToolError
from shared.log import get_logger
from shared.messages import Permission
from shared.redaction import redact_text
from shared.text import cut
from shared.tools import Run, Tool, ToolContext

statements = load_statements(__file__)

TABLES = (None, "mcp_servers", "mcp_tools")
RESTART_SECONDS = 1.0
# Every login of the database may announce changes, as often as it likes: what comes within this time is read together.
GATHER_SECONDS = 0.25
# How often `last_seen_at` of unchanged tools is updated, so that an admin can see which rows are outdated.
NOTE_AGAIN_SECONDS = 3600.0


log = get_logger()


class _Kept(Struct):
    # A server with its connection and its listed tools.
    server: Server
    connection: Connection
    listed: tuple[Listed, ...] = ()
    tools: dict[Listed, Tool] = field(default_factory=dict)
    approved: frozenset[Listed] = frozenset()
    noted_at: float | None = None


class RemoteTools(ToolProvider):
    """Offers the approved tools of all servers. Call `run` once; cancel its task to close all connections.

    `reserved`: names of other modules, which no server may have. Without `starts_programs` there are only servers that
    somebody else runs.
    """

    def __init__(self, database: Database, reserved: Collection[str] = (), *, starts_programs: bool = True) -> None:
        self._database = database
        self._reserved, self._starts_programs = frozenset(reserved), starts_programs
        self._kept: dict[int, _Kept] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._published: list[Tool] = []
        self._running = asyncio.Lock()
        self._change = asyncio.Event()

    def offer(self, tools: Iterable[Tool]) -> None:
        """Replace the offered tools: in new turns, and for calls of running turns, which fail if the tool is gone."""
        self.tools = {tool.name: tool for tool in tools}

    def note_change(self, table: str | None) -> None:
        """Read the servers and approvals again, because an admin has changed this table (None: any)."""
        if table in TABLES:
            self._change.set()

    async def run(self) -> None:
        """Keep the servers connected and follow the changes of their tables, until cancelled."""
        # Several workers of one process share this provider: only one of them runs it at a time.
        async with self._running, AsyncExitStack() as closing:
            closing.push_async_callback(self._close)
            while True:
                self._change.clear()
                try:
                    await self._refresh()
                except DatabaseLost:
                    await asyncio.sleep(RESTART_SECONDS)
                else:
                    await asyncio.sleep(GATHER_SECONDS)
                    await self._change.wait()

    async def _close(self) -> None:
        for server_id in list(self._kept):
            self._drop(server_id)
        self._publish()
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def _refresh(self) -> None:
        async with self._database.statement() as session:
            rows = (await session.execute(statements.list_servers)).all()
            approved = {tuple(pin) for pin in (await session.execute(statements.list_approved_tools)).all()}
        refusals = {row.id: reason for row in rows if (reason := self._refuse(row)) is not None}
        fit = {row.id: row for row in rows if row.id not in refusals}
        for server_id in self._kept.keys() - fit.keys():
            self._drop(server_id)
        for row in fit.values():
            server = Server.from_row(row)
            entry = self._kept.get(server.id)
            if entry is not None and entry.server.address != server.address:
                self._drop(server.id)
                entry = None
            if entry is None:
                connection = Connection(server, self._on_list, self._on_loss)
                entry = self._kept[server.id] = _Kept(server, connection)
            elif entry.server != server:
                entry.server = entry.connection.server = server
                entry.tools, _ = self._build(entry, entry.listed)
            if row.is_new:
                entry.noted_at = None
                entry.connection.look_again()
            entry.approved = frozenset(tool for tool in entry.tools if (row.id, tool.name, tool.hash) in approved)
        self._publish()
        for server_id, reason in refusals.items():
            await self._note_lost(server_id, reason)

    def _refuse(self, row: Any) -> str | None:
        if row.name in self._reserved:
            return f"{row.name} is the name of a module; give the server another one."
        if row.transport == "stdio" and not self._starts_programs:
            return "It is a program, and MCP_COMMANDS=false forbids to start one; run it as a server with a url."
        return None

    def _drop(self, server_id: int) -> None:
        entry = self._kept.pop(server_id)
        closing = asyncio.create_task(entry.connection.close(), name=f"close {entry.server.name}")
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def _publish(self) -> None:
        tools = [tool for entry in self._kept.values() for spec, tool in entry.tools.items() if spec in entry.approved]
        # A changed tool is a new object, so comparing identities finds every change.
        if [id(tool) for tool in tools] != [id(tool) for tool in self._published]:
            self._published = tools
            self.offer(tools)
            log.info("mcp_tools_changed", count=len(tools))

    async def _on_list(self, server: Server, specs: Sequence[Listed]) -> None:
        entry = self._kept.get(server.id)
        if entry is None or entry.connection.server is not server:
            return
        now = asyncio.get_running_loop().time()
        is_known = entry.noted_at is not None and now - entry.noted_at < NOTE_AGAIN_SECONDS
        if is_known and entry.listed == tuple(specs):
            return
        tools, problems = self._build(entry, specs)
        rows = [asdict(spec) for spec in specs]
        async with self._database.transaction() as session:
            is_first = (
                await session.execute(statements.claim_first_sight, {"server_id": server.id})
            ).first() is not None
            parameters = {"server_id": server.id, "seen": json.dumps(rows), "approved": is_first}
            pinned = {
                (row.name, row.hash) for row in await session.execute(statements.pin_tools, parameters) if row.approved
            }
            await session.execute(
                statements.note_connected,
                {"server_id": server.id, "error": None if problems is None else redact_text(problems)},
            )
        approved = frozenset(spec for spec in specs if (spec.name, spec.hash) in pinned)
        entry.listed, entry.tools, entry.approved, entry.noted_at = tuple(specs), tools, approved, now
        self._publish()

    def _build(self, entry: _Kept, specs: Sequence[Listed]) -> tuple[dict[Listed, Tool], str | None]:
        # Imported here, so that an installation without servers does not load the SDK.
        from agent.tools.mcp.remote_tools import to_tool

        tools: dict[Listed, Tool] = {}
        problems: list[str] = []
        server = entry.server
        for spec in specs:
            is_read_only = _names(server.read_only_tools, spec.name)
            try:
                tools[spec] = to_tool(
                    spec,
                    self._run_of(entry, spec),
                    module=server.name,
                    requires=server.permission,
                    read_only=is_read_only,
                    repeatable=is_read_only,
                    # A search changes nothing, and still sends words of the conversation to others.
                    acts=not (is_read_only and _names(server.tells_nobody_tools, spec.name)),
                    timeout_seconds=server.timeout_seconds,
                    reads_untrusted=server.reads_untrusted,
                    reads_private=server.reads_private,
                )
            except ToolError as error:
                problems.append(f"{spec.name} is off: {error}")
        return tools, cut(" ".join(problems), 500) or None

    async def _on_loss(self, server: Server, reason: str) -> None:
        entry = self._kept.get(server.id)
        if entry is None or entry.connection.server is not server:
            return
        entry.listed, entry.tools, entry.approved, entry.noted_at = (), {}, frozenset(), None
        self._publish()
        with suppress(DatabaseLost):
            await self._note_lost(server.id, reason)

    async def _note_lost(self, server_id: int, reason: str) -> None:
        async with self._database.transaction() as session:
            await session.execute(statements.note_lost, {"server_id": server_id, "error": redact_text(reason)})

    def _run_of(self, entry: _Kept, spec: Listed) -> Run:
        # Positional only, because the server's tool may have an argument named `context`.
        async def run(context: ToolContext, /, **arguments: Any) -> Any:
            from agent.tools.mcp.remote_tools import to_result

            meta = await self._admit(entry.server, spec, context)
            return to_result(await entry.connection.call(spec.name, arguments, meta))

        return run

    async def _admit(self, server: Server, spec: Listed, context: ToolContext) -> dict[str, Any]:
        """Return the metadata about the caller for the server, empty unless `tells_user` is set.

        Raises `ToolError` if the tool has been disabled or the user no longer has the permission.
        """
        parameters = {
            "server_id": server.id,
            "name": spec.name,
            "hash": spec.hash,
            "user_id": context.user.id,
            "platform": context.place.platform,
        }
        async with self._database.statement() as session:
            row = (await session.execute(statements.admit_program, parameters)).one_or_none()
        if row is None or Permission.from_label(row.required_permission) > context.user.permission:
            raise ToolError(f"The tool {server.name}.{spec.name} has been switched off.")
        if row.platform is None:
            return {}
        person = {"platform": row.platform, "platform_user_id": row.platform_user_id}
        return {
            "parley/person": person,
            "parley/place": asdict(context.place),
            "parley/call_id": context.call_id,
        }


def _names(names: Sequence[str], name: str) -> bool:
    return name in names or "*" in names
