"""The web application: its routes, and the server that runs it."""

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from adapters.base import ChatPlatform
from adapters.web import files, health, modules
from adapters.web.api import messages
from adapters.web.api.openai import completions
from adapters.web.faults import HANDLERS
from adapters.web.guard import BoundedProtocol, Endpoint, HalfOpen, ReadableAddresses
from adapters.web.login import links
from adapters.web.page import chat, chats, credentials, memories, page
from agent.app import App
from agent.queue.heartbeats import LiveWorkers
from shared.errors import ConfigurationError
from shared.settings import Settings

if TYPE_CHECKING:
    from adapters.cells.routes import Cells

# Answers that a worker of this process finishes in its own grace still reach those who wait; others shall come back.
ANSWER_SECONDS, GRACE_SECONDS = 21.0, 23
# Longer than clients keep an idle connection: a request on a connection that is being closed would be lost.
KEEP_ALIVE_SECONDS = 75
BACKLOG = 2048
RESPONSES = "adapters.web.api.openai.responses"
BRANCHES = "adapters.web.branches.branches"
SHARES = "adapters.web.shares.shares"
FEEDBACK = "adapters.web.page.feedback"
ADMIN_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def build_web(app: App, mounted: Sequence[Route] = (), *, workers: int = 0, cells: "Cells | None" = None) -> Starlette:
    """Return the web application for this app; `mounted` are the routes of other adapters.

    `workers`: how many this program starts; 0 if others do. `cells`: those behind this door; `app` is the first one's.
    """
    web = Starlette(
        routes=[
            # The most frequent first: routes are tried in order.
            Route("/v1/messages", messages.post_message, methods=["POST"]),
            Route("/v1/chat/completions", completions.post_completion, methods=["POST"]),
            Route("/v1/responses", lazy(RESPONSES, "post_response"), methods=["POST"]),
            *page_routes(),
            Route("/v1/models", completions.get_models),
            Route("/v1/models/{model}", completions.get_model),
            Route("/v1/responses/{id}", lazy(RESPONSES, "get_response")),
            Route("/v1/responses/{id}", lazy(RESPONSES, "delete_response"), methods=["DELETE"]),
            Route("/v1/conversations/{id}/events", messages.get_events),
            Route("/files/{id}", files.get_file),
            Route("/pictures/{digest}", lazy("adapters.web.portraits", "get_picture")),
            Route("/healthz", health.get_health),
            Route("/readyz", health.get_readiness),
            Route("/metrics", health.get_metrics),
            Route("/openapi.json", lazy("adapters.web.api.openapi", "get_openapi")),
            Route("/docs", lazy("adapters.web.page.reference", "get_reference")),
            Route(modules.PATH, modules.answer_module, methods=modules.METHODS),
            Route("/", page.get_page),
            *login_routes(),
            *own_routes(),
            Route("/sw.js", page.get_worker),
            *admin_routes(),
            *page.static_routes(),
            *mounted,
            *platform_routes(app),
        ],
        exception_handlers=HANDLERS,
        middleware=[Middleware(ReadableAddresses)],
    )
    # No redirect for an extra slash: it would lose the body of a POST.
    web.router.redirect_slashes = False
    web.state.parley, web.state.cells = app, cells
    web.state.large_bodies = Counter()
    web.state.workers, web.state.configured_workers = LiveWorkers(), workers
    web.state.workers_of_cells = {}
    web.state.searches = chats.Searches()
    # Set when the server is about to end: streams that would go on for ever end then.
    web.state.closing = asyncio.Event()
    return web


def page_routes() -> list[Route]:
    """Return the routes of the chat page's own scripts."""
    return [
        Route("/chat/messages", chat.post_chat_message, methods=["POST"]),
        Route("/chat/events", chat.get_chat_events),
        Route("/chat/memories", memories.get_memories),
        Route("/chat/commands", memories.post_command, methods=["POST"]),
        Route("/chat/credentials", credentials.post_credential, methods=["POST"]),
        Route("/chat/stop", chat.post_chat_stop, methods=["POST"]),
        Route("/page/chats", chats.get_chats),
        Route("/page/chats/{chat}", chats.change_chat, methods=["PATCH"]),
        Route("/page/chats/{chat}", chats.delete_chat, methods=["DELETE"]),
        Route("/page/chats/{chat}/messages", chats.get_messages),
        Route("/page/chats/{chat}/choices", chats.put_choices, methods=["PUT"]),
        Route("/page/chats/{chat}/messages/{message}/events", chat.get_message_events),
        Route("/page/chats/{chat}/arrivals", chat.get_arrivals),
        Route("/page/chats/{chat}/export", lazy("adapters.web.page.exports", "export_chat")),
        Route("/page/chats/{chat}/branches", lazy(BRANCHES, "begin_branch"), methods=["POST"]),
        Route("/page/chats/{chat}/branch", lazy(BRANCHES, "get_branch")),
        Route("/page/chats/{chat}/branch", lazy(BRANCHES, "choose_branch"), methods=["PUT"]),
        Route(
            "/page/chats/{chat}/turns/{turn}/feedback",
            lazy(FEEDBACK, "put_feedback"),
            methods=["PUT"],
        ),
        Route("/page/chats/{chat}/shares", lazy(SHARES, "create_share"), methods=["POST"]),
        Route("/page/shares", lazy(SHARES, "list_shares")),
        Route("/page/shares/{share}", lazy(SHARES, "revoke_share"), methods=["DELETE"]),
        Route("/shared/{token}", lazy(SHARES, "get_share")),
        Route("/page/search", chats.search),
        Route("/page/state", chats.get_state),
    ]


def admin_routes() -> list[Route]:
    """Return the routes of the admin pages; with every method, so that nobody can tell them from a missing page."""
    site = lazy("adapters.web.admin.site", "answer")
    return [Route(path, site, methods=ADMIN_METHODS) for path in ("/admin", "/admin/{path:path}")]


def login_routes() -> list[Route]:
    """Return the routes by which people come in and leave."""
    oidc = "adapters.web.login.oidc"
    return [
        Route("/login", links.post_login, methods=["POST"]),
        Route("/login/guest", links.post_guest, methods=["POST"]),
        Route("/logout", links.post_logout, methods=["POST"]),
        Route("/login/oidc", lazy(oidc, "post_start"), methods=["POST"]),
        Route("/login/oidc/callback", lazy(oidc, "get_callback"), methods=["GET"]),
        Route("/login/oidc/enter", lazy(oidc, "get_entrance"), methods=["GET"]),
        Route("/login/oidc/leave", lazy(oidc, "post_leave"), methods=["POST"]),
    ]


def own_routes() -> list[Route]:
    """Return the routes of the pages about oneself."""
    site = lazy("adapters.web.me.site", "answer")
    return [Route(path, site, methods=["GET", "POST"]) for path in ("/me", "/me/{path:path}")]


def lazy(module: str, name: str) -> Endpoint:
    """Return the endpoint of this name in a module that is imported with its first request.

    Few installations ever get one, and each process would pay at its start for the schemas that these modules build.
    """
    endpoint: Endpoint | None = None

    async def answer(request: Request) -> Response:
        nonlocal endpoint
        if endpoint is None:
            # Not from sys.modules, where a module stands already while another request's thread imports it.
            endpoint = getattr(await asyncio.to_thread(import_module, module), name)
        return await endpoint(request)

    return answer


def platform_routes(app: App) -> list[Route]:
    """Return the routes of the chat platforms in this process."""
    return [route for sender in app.distinct_senders if isinstance(sender, ChatPlatform) for route in sender.routes()]


class Server(uvicorn.Server):
    """A server that leaves signals to the program around it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


def listen(settings: Settings) -> socket.socket:
    """Return the listening socket; raises `ConfigurationError` if the port is taken."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With an explicit protocol number, because asyncio switches off Nagle's delay (40 ms per response) only then.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise ConfigurationError(
            f"HOST or PORT: can't listen on {settings.host}:{settings.port} ({error.strerror or error});"
            " set PORT to a free one."
        ) from None
    return listening


def to_config(application: ASGIApp, **own: Any) -> uvicorn.Config:
    """Return the configuration of our servers: bounded requests, no event loop or logging of its own; plus `own`."""
    own.setdefault("http", partial(BoundedProtocol, half_open=HalfOpen()))
    return uvicorn.Config(
        application,
        loop="none",
        ws="none",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        **own,
    )


async def serve(
    app: App,
    on_start: Callable[[str, int], None] | None = None,
    *,
    mounted: Sequence[Route] = (),
    workers: int = 0,
    cells: "Cells | None" = None,
) -> None:
    """Serve until cancelled, then finish the requests that are running; `on_start` is called with host and port.

    `mounted`: the routes of other adapters. The chat platforms in this process have theirs in any case. `workers`: how
    many this program starts; 0 if others do. `cells`: those behind this door; `app` is the first one's.
    Raises `ConfigurationError` if the port is taken.
    """
    listening = listen(app.settings)
    own: dict[str, Any] = {"lifespan": "off", "timeout_keep_alive": KEEP_ALIVE_SECONDS}
    own["forwarded_allow_ips"] = list(app.settings.forwarded_allow_ips)
    if on_start is not None:
        # The socket listens already: requests that arrive before the server runs wait for a moment.
        on_start(*listening.getsockname()[:2])
    web = build_web(app, mounted, workers=workers, cells=cells)

    def close() -> None:
        web.state.closing.set()
        for cell in (app,) if cells is None else cells:
            asyncio.get_running_loop().call_later(ANSWER_SECONDS, cell.events.stop_readers)

    await run_server(to_config(web, **own), listening, close)


async def run_server(
    config: uvicorn.Config, listening: socket.socket, on_closing: Callable[[], None] | None = None
) -> None:
    """Serve on this socket until cancelled, then call `on_closing` and finish the requests that are running."""
    server = Server(config)
    serving = asyncio.create_task(server.serve([listening]), name="web server")
    try:
        await asyncio.shield(serving)
    finally:
        server.should_exit = True
        if on_closing is not None:
            on_closing()
        await serving
