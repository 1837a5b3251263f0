"""`/admin/tools`: what models may call: modules, MCP servers and agents; who may, what is off, and why."""

from collections import defaultdict
from typing import Any

from msgspec import Struct
from starlette.responses import Response
from starlette.routing import Route

from adapters.web.admin.visit import Visit, calling
from adapters.web.texts import say
from agent.commands.forms.entries import Form
from agent.tools.modules import RESERVED_NAMES
from shared.db.statements import load_statements
from shared.messages import Permission
from shared.tools import Tool

statements = load_statements(__file__)

# The search among tools is a part of the offer.
SWITCHABLE = RESERVED_NAMES - {"tools"}
PERMISSIONS = tuple(permission.label for permission in Permission)


class ListedModule(Struct, frozen=True):
    """A module: its tools, those that lack a setting with the reason, why it failed, and the personas that name it.

    `is_enabled` and `requires` are what an admin has said of it, `calls` and `failed_calls` those that are counted.
    """

    name: str
    tools: tuple[Tool, ...]
    off: dict[str, str]
    failure: str | None
    personas: tuple[str, ...]
    is_for_guests: bool
    is_enabled: bool = True
    requires: Permission = Permission.GUEST
    calls: int = 0
    failed_calls: int = 0


async def show_tools(visit: Visit) -> Response:
    """Show all sources of tools; switch one, or approve a tool, as a form says."""
    await visit.act(ACTS)
    tools: defaultdict[int, list[Any]] = defaultdict(list)
    for tool in await visit.rows(statements.list_mcp_tools):
        tools[tool.server_id].append(tool)
    servers, agents = await visit.rows(statements.list_mcp_servers), await visit.rows(statements.list_agents)
    modules = await list_modules(visit)
    failures: defaultdict[str, list[Any]] = defaultdict(list)
    sources = [source.name for source in (*modules, *servers)]
    for failure in await visit.rows(statements.list_failures, sources=sources):
        failures[failure.source].append(failure)
    waiting = [tool.hash for of_server in tools.values() for tool in of_server if not tool.approved]
    permissions = [
        (label, say("admin.permission_and_above", label=label) if label != "owner" else say("admin.owners"))
        for label in PERMISSIONS
    ]
    return visit.render(
        "tools/tools.html",
        title=say("admin.tools"),
        modules=modules,
        servers=servers,
        tools=tools,
        agents=agents,
        failures=failures,
        # Of the forms that the page has: a refusal stands in its own.
        keys={*(source.name for source in (*servers, *agents, *modules)), *waiting},
        permissions=permissions,
        module_permissions=[(PERMISSIONS[0], say("admin.as_its_tools_say")), *permissions[1:]],
    )


async def list_modules(visit: Visit) -> list[ListedModule]:
    """Return all that can be switched, the program's own tools among them, those first that failed."""
    modules = visit.app.tools.modules
    rules = {row.name: (row.is_enabled, row.required_permission) for row in await visit.rows(statements.list_modules)}
    counts = {row.module: (row.calls, row.failed) for row in await visit.rows(statements.count_calls)}
    personas = {row.module: tuple(row.personas) for row in await visit.rows(statements.list_personas_of_modules)}
    switchable = []
    for name in modules.modules | SWITCHABLE | rules.keys():
        is_enabled, label = rules.get(name, (True, PERMISSIONS[0]))
        calls, failed_calls = counts.get(name, (0, 0))
        module = ListedModule(
            name,
            tools=tuple(tool for tool in visit.app.toolbox.tools if tool.module == name),
            off={tool: reason for tool, reason in modules.off.items() if tool.partition(".")[0] == name},
            failure=modules.failures.get(name),
            personas=personas.get(name, ()),
            is_for_guests=name in visit.app.settings.default_guest_modules,
            is_enabled=is_enabled,
            requires=Permission.from_label(label),
            calls=calls,
            failed_calls=failed_calls,
        )
        switchable.append(module)
    return sorted(switchable, key=lambda module: (module.failure is None, module.name))


def read_switch(form: Form) -> dict[str, Any]:
    """Return what a form says of the thing that its key names."""
    state = form.text("state")
    return {
        "name": form.text("key"),
        "is_enabled": {"on": True, "off": False}.get(state),
        "permission": form.optional("permission"),
    }


def read_wording(form: Form) -> dict[str, Any]:
    """Return the tool that a form names, in the wording that the page has shown."""
    return {"server": form.text("server"), "tool": form.text("tool"), "hash": form.text("key")}


ACTS = {
    "module": calling(statements.set_module, read_switch),
    "mcp-server": calling(statements.set_mcp_server, read_switch),
    "agent": calling(statements.set_agent, read_switch),
    "approve": calling(statements.approve_mcp_tool, read_wording),
}
ROUTES = (Route("/admin/tools", show_tools, methods=["GET", "POST"]),)
