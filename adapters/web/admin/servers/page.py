"""`/admin/servers`: servers and workspaces, each with its channels and with what applies there."""

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from adapters.web.admin.visit import ROWS, Act, Visit, calling
from adapters.web.page.chats import to_pattern
from adapters.web.texts import say
from agent.commands.forms.acts import MODES
from agent.commands.forms.entries import Form
from shared.db.statements import load_statements

statements = load_statements(__file__)


async def show_servers(visit: Visit) -> Response:
    """Show the servers, the newest first."""
    words = visit.query("q")
    parameters = {"before": visit.cursor(), "pattern": to_pattern(words) if words else None, "limit": ROWS + 1}
    servers = await visit.rows(statements.list_servers, **parameters)
    return visit.render(
        "servers/servers.html",
        title=say("admin.servers_and_channels"),
        servers=servers[:ROWS],
        last=servers[ROWS - 1].id if len(servers) > ROWS else None,
        modes=dict(MODES),
    )


async def show_server(visit: Visit) -> Response:
    """Show a server with its channels."""
    server = await visit.row(statements.find_server, id=visit.path_params["id"])
    await visit.act(list_acts(server, None))
    place = {"platform": server.platform, "server": server.platform_server_id}
    channels = await visit.rows(statements.list_channels, **place, after=visit.query("after"), limit=ROWS + 1)
    return await render_place(
        visit,
        server.id,
        channel=None,
        channels=channels[:ROWS],
        last=channels[ROWS - 1].channel if len(channels) > ROWS else None,
    )


async def show_channel(visit: Visit) -> Response:
    """Show a channel of a server."""
    server = await visit.row(statements.find_server, id=visit.path_params["id"])
    channel = str(visit.path_params["channel"])
    await visit.act(list_acts(server, channel))
    return await render_place(visit, server.id, channel=channel, channels=[], last=None)


async def render_place(visit: Visit, server_id: int, **values: Any) -> Response:
    """Return the page of a server or of a channel, after what its form has changed."""
    server = await visit.row(statements.find_server, id=server_id)
    channel = values["channel"]
    place = {"platform": server.platform, "server": server.platform_server_id, "channel": channel}
    return visit.render(
        "servers/place.html",
        title=server.name if channel is None else say("admin.channel_with_name", channel=channel),
        server=server,
        own=await visit.row(statements.find_own, **place),
        lines=await visit.rows(statements.explain_place, **place),
        personas=[row.name for row in await visit.rows(statements.list_personas)],
        modes=MODES,
        **values,
    )


def list_acts(server: Any, channel: str | None) -> Mapping[str, Act]:
    """Return what the forms of a place do; without a channel they are about the whole server."""
    here = {"platform": server.platform, "server": server.platform_server_id}
    place = here | {"channel": channel}

    def read_mode(form: Form) -> Mapping[str, Any]:
        flags = {name: form.text(name) == "yes" for name in ("thread_per_question", "answers_others")}
        return place | {"mode": form.optional("mode")} | flags

    def read_limit(form: Form) -> Mapping[str, Any]:
        limit = {"tokens": form.number("tokens"), "dollars": form.amount("dollars"), "period": form.text("period")}
        return place | limit

    acts = {
        "mode": calling(statements.set_mode, read_mode),
        "persona": calling(statements.bind_persona, lambda form: place | {"persona": form.optional("persona")}),
        "limit": calling(statements.set_limit, read_limit),
    }
    if channel is None:
        acts |= {
            "budget": calling(statements.set_budget, lambda form: here | {"tokens": form.number("tokens")}),
            "pause": calling(statements.pause, lambda _form: here),
            "resume": calling(statements.resume, lambda _form: here),
        }
    return acts


ROUTES = (
    Route("/admin/servers", show_servers),
    Route("/admin/servers/{id:int}", show_server, methods=["GET", "POST"]),
    Route("/admin/servers/{id:int}/channels/{channel:path}", show_channel, methods=["GET", "POST"]),
)
