"""An MCP server with the tools of our modules, so that a module can run in another process or on another machine.

A client over HTTP sends `API_TOKEN` and names the person for whom it calls. Over stdio the person is the one at this
terminal, who may name others as an owner. The person's permission is checked here for each call, as in a turn.
"""

import hmac
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as McpTool
from msgspec import Struct
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from adapters.terminal.person import terminal_place, terminal_sender
from adapters.web.api.bodies import Name, check_place
from adapters.web.app import listen, run_server, to_config
from agent.app import App
from agent.people.module_rules import list_module_rules
from agent.people.participants import ResolvedUser, resolve_conversation, resolve_user
from agent.people.pauses import find_pause
from agent.people.personas import resolve_persona
from agent.tools.calls import NO_OBJECT, PendingCall, depth, read_arguments
from agent.tools.offer import Scope as CallScope
from agent.tools.outcomes import is_error
from shared import __version__
from shared.errors import ConfigurationError, Refusal, ToolError, Unavailable
from shared.messages import Permission, Place, Sender
from shared.text import MAX_DEPTH, clean, cut_nesting
from shared.tools import ToolContext

PERSON, PLACE, CALL_ID = "parley/person", "parley/place", "parley/call_id"
PATH = "/mcp"
# What is looked through for deep nesting, and how many levels of it are left: more than any tool takes.
MAX_BODY_BYTES, KEPT_LEVELS = 4 * 1024 * 1024, 100
# Which pydantic writes.
DIALECT = "https://json-schema.org/draft/2020-12/schema"

Context = ServerRequestContext[dict[str, Any]]


class NamedPerson(BaseModel):
    """The person of a call: `_meta["parley/person"]`, or the headers `Parley-Platform` and `Parley-User`."""

    model_config = ConfigDict(extra="forbid")

    platform: Name
    platform_user_id: Name


class NamedPlace(BaseModel):
    """The place of the person: `_meta["parley/place"]`; without it, a direct message."""

    model_config = ConfigDict(extra="forbid")

    platform: Name
    server: Name | None = None
    channel: Name
    thread: Name | None = None
    is_direct: bool = False

    @model_validator(mode="after")
    def _fits(self) -> "NamedPlace":
        check_place(self.to_place())
        return self

    def to_place(self) -> Place:
        """Return the place."""
        return Place(**self.model_dump())


class _Call(Struct, frozen=True):
    sender: Sender
    place: Place
    call_id: str


class ModuleServer:
    """The tools of some modules as an MCP server; without `at_terminal`, every call has to name its person.

    Raises `ConfigurationError` for an unknown module.
    """

    def __init__(self, app: App, modules: Sequence[str] = (), at_terminal: ResolvedUser | None = None) -> None:
        self._app = app
        self._at_terminal = at_terminal
        # By the names under which they are listed: without the module's name if there is only one.
        module_names = sorted({tool.module for tool in app.toolbox.tools})
        unknown = [module for module in modules if module not in module_names]
        if unknown:
            raise ConfigurationError(
                f"There is no module {unknown[0]!r} with tools; there are: {', '.join(module_names)}."
            )
        # Tools that end a turn are left out: there is no turn to end.
        tools = [tool for tool in app.toolbox.tools if not tool.ends_turn and (not modules or tool.module in modules)]
        self._tools = {tool.run.__name__ if len(modules) == 1 else tool.wire_name: tool for tool in tools}
        self.protocol: Server[dict[str, Any]] = Server(
            "parley", version=__version__, on_list_tools=self._list, on_call_tool=self._call
        )

    async def _list(self, _context: Context, _page: PaginatedRequestParams | None) -> ListToolsResult:
        async with self._app.database.statement() as session:
            modules = await list_module_rules(session)
        return ListToolsResult(
            tools=[
                McpTool(
                    name=name,
                    description=tool.description,
                    # Left out of prompts, where they would cost tokens.
                    input_schema={
                        "$schema": DIALECT,
                        "additionalProperties": False,
                        **tool.schema["function"]["parameters"],
                    },
                    annotations=ToolAnnotations(read_only_hint=tool.read_only),
                )
                for name, tool in self._tools.items()
                if modules.get(tool.module, tool.requires) is not None
            ]
        )

    async def _call(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        app, tool = self._app, self._tools.get(params.name)
        try:
            if tool is None:
                raise ToolError(f"There is no tool {params.name[:64]!r} here.", available_tools=list(self._tools)[:40])
            fields = params.arguments or {}
            if depth(fields) > MAX_DEPTH:
                raise ToolError(NO_OBJECT)
            call = self._read_call(context, params.meta or {})
            async with app.database.transaction() as session:
                user = await resolve_user(session, call.sender)
                refusal = await find_pause(session, call.place, is_person_paused=user.is_paused)
                if refusal is not None:
                    raise refusal
                persona = await resolve_persona(session, call.place, user.permission, settings=app.settings)
                modules = await list_module_rules(session)
                conversation = await resolve_conversation(session, user.id, persona.id, place=call.place)
        except (ToolError, Refusal, Unavailable) as error:
            return _to_result(json.dumps({"error": True, "message": str(error), **error.fields}), is_error=True)
        outflow, caller = app.events.outflow(), user.as_caller()
        storage = app.files.storage.of_user(app.database, user.id, conversation.id)
        storage.holds_secret = outflow.holds_secret
        tool_context = ToolContext(
            user=caller,
            place=call.place,
            conversation_id=conversation.id,
            # The call comes from outside and belongs to no turn.
            turn_id=0,
            call_id=call.call_id,
            module=tool.module,
            clock=app.clock,
            http=app.files.http,
            storage=storage,
            memory=app.memory.of_user(user.id, call.place, conversation.id),
            database=app.database,
            app_settings=app.settings,
            credentials=app.credentials.of_user(user.id, on_read=outflow.hide),
        )
        scope = CallScope(caller, persona, call.place, modules=modules, can_ask=False)
        arguments = read_arguments(json.dumps(fields))
        pending = PendingCall(call.call_id, tool.name, arguments, scope=scope, offer=app.toolbox.offered_to(scope))
        outcome = await app.toolbox.call(pending, tool_context)
        return _to_result(outflow.json_without_secrets(outcome.content), is_error=is_error(outcome))

    def _read_call(self, context: Context, meta: Mapping[str, Any]) -> _Call:
        call_id = clean(str(meta.get(CALL_ID) or context.request_id))[:200]
        headers: Mapping[str, str] = getattr(context.request, "headers", {})
        header_fields = {"platform": headers.get("parley-platform"), "platform_user_id": headers.get("parley-user")}
        identity = (
            meta.get(PERSON) or {name: value for name, value in header_fields.items() if value is not None} or None
        )
        if identity is None and self._at_terminal is not None:
            return _Call(terminal_sender(), terminal_place(terminal_sender()), call_id)
        if identity is None:
            raise ToolError(f'Name the person: _meta["{PERSON}"] = {{"platform": …, "platform_user_id": …}}.')
        if self._at_terminal is not None and self._at_terminal.permission < Permission.OWNER:
            raise ToolError("Only the owner of this installation may call for another person.")
        try:
            person = NamedPerson.model_validate(identity)
            direct = {"platform": person.platform, "channel": person.platform_user_id, "is_direct": True}
            place = NamedPlace.model_validate(meta.get(PLACE) or direct).to_place()
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise ToolError(f"The person or the place is not named well: {where}: {first['msg']}.") from None
        return _Call(Sender(person.platform, person.platform_user_id), place, call_id)


def _to_result(content: str, *, is_error: bool) -> CallToolResult:
    # Structured content has to be an object; every result is wrapped in one, so that clients need not distinguish.
    return CallToolResult(
        content=[TextContent(type="text", text=content)],
        structured_content={"result": json.loads(content)},
        is_error=is_error,
    )


async def serve_stdio(server: ModuleServer) -> None:
    """Serve on stdin and stdout until they are closed."""
    protocol = server.protocol
    async with stdio_server() as (read_stream, write_stream):
        await protocol.run(read_stream, write_stream, protocol.create_initialization_options())


def build_http(app: App, server: ModuleServer) -> ASGIApp:
    """Return the server as a web application that requires `Authorization: Bearer API_TOKEN`, and a host of ours."""
    # Checked by ours, which knows addresses from names.
    any_host = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    web = server.protocol.streamable_http_app(
        streamable_http_path=PATH, json_response=True, stateless_http=True, transport_security=any_host
    )
    names = {"localhost", app.settings.host, urlsplit(app.settings.public_url or "").hostname}
    return _Guard(web, app.secrets.api_token, frozenset(name.lower() for name in names if name))


class _Guard:
    """Keeps out who has no token, and pages whose name was made to point here (DNS rebinding).

    `names` are our own; an address can't be made to point elsewhere, so a host may be any, but an origin only this
    machine's.
    """

    def __init__(
        self, inner: Callable[[Scope, Receive, Send], Awaitable[None]], token: str, names: frozenset[str]
    ) -> None:
        self._inner = inner
        self._token = token.encode()
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
        elif refusal := self._refuse(scope["headers"]):
            await refusal(scope, receive, send)
        else:
            await self._inner(scope, await _without_deep_nesting(receive), send)

    def _refuse(self, headers: Sequence[tuple[bytes, bytes]]) -> JSONResponse | None:
        for name, value in headers:
            if name == b"host" and not self._is_ours(b"//" + value, at_any_address=True):
                reason = "This server is not known by that host; set PUBLIC_URL to the address that clients use."
                return JSONResponse({"error": "wrong_host", "message": reason}, 421)
            if name == b"origin" and not self._is_ours(value, at_any_address=False):
                reason = "Pages of other sites may not call this server; set PUBLIC_URL to the address of yours."
                return JSONResponse({"error": "foreign_origin", "message": reason}, 403)
        scheme, _, token = dict(headers).get(b"authorization", b"").partition(b" ")
        if scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token):
            return None
        reason = "Send the header Authorization: Bearer followed by the API_TOKEN of this Parley."
        return JSONResponse({"error": "unauthorized", "message": reason}, 401, {"WWW-Authenticate": "Bearer"})

    def _is_ours(self, url: bytes, *, at_any_address: bool) -> bool:
        try:
            host = urlsplit(url.decode("latin-1")).hostname or ""
            return host in self._names or ip_address(host).is_loopback or at_any_address
        except ValueError:
            return False


async def _without_deep_nesting(receive: Receive) -> Receive:
    # The library's parser refuses the whole request where arguments are nested some 200 deep, and the client could not
    # tell which call was wrong: nulls in their place leave them too deep for a tool, which says so.
    messages: list[Message] = []
    size = 0
    while size <= MAX_BODY_BYTES:
        messages.append(message := await receive())
        size += len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body"):
            body = b"".join(message.get("body", b"") for message in messages)
            if messages[-1]["type"] == "http.request" and body.count(b"[") + body.count(b"{") > KEPT_LEVELS:
                shallow = cut_nesting(body.decode("utf-8", "surrogateescape"), KEPT_LEVELS)
                messages = [{**message, "body": shallow.encode("utf-8", "surrogateescape")}]
            break

    async def receive_again() -> Message:
        return messages.pop(0) if messages else await receive()

    return receive_again


async def serve_http(app: App, server: ModuleServer, port: int, on_start: Callable[[str], None]) -> None:
    """Serve streamable HTTP until cancelled, and finish running requests; `on_start` is called with the URL.

    Raises `ConfigurationError` if the port is taken.
    """
    listening = listen(app.settings.model_copy(update={"port": port}))
    config = to_config(build_http(app, server), lifespan="on")
    host, bound = listening.getsockname()[:2]
    on_start(f"http://{host}:{bound}{PATH}")
    await run_server(config, listening)
