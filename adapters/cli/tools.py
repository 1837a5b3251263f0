"""`parley tools`: all tools with their source, the permission that each needs, whether it is on, and its tokens."""

import asyncio
from typing import TYPE_CHECKING, Any

import typer

from adapters.cli.console import complain, say, show_table
from adapters.cli.opening import find_database, read_settings
from shared.db.statements import load_statements

if TYPE_CHECKING:
    from agent.people.module_rules import ModuleRules
    from shared.settings import Settings

statements = load_statements(__file__)

app = typer.Typer()

COLUMNS = ("tool", "source", "needs", "state", "tokens", "description")


@app.command("tools")
def list_tools(
    module: str | None = typer.Argument(None, help="Only this module's or MCP server's tools."),
) -> None:
    """List the tools of modules and MCP servers: source, permission, whether each is on and why not, tokens."""
    from agent.tools.modules import find_modules

    settings = read_settings(quiet=True)
    all_modules = find_modules(settings.modules_path, settings)
    selection = sorted(
        (candidate for candidate in all_modules.loaded if module in (None, candidate.name)),
        key=lambda candidate: candidate.name,
    )
    failed = [candidate for candidate in all_modules.failed if module in (None, candidate.name)]
    remote, rules = asyncio.run(_read_database(settings))
    rows: list[tuple[str, ...]] = []
    for candidate in selection:
        if not candidate.tools:
            rows.append((candidate.name, candidate.source, "", "", "", "(has no tools)"))
        for tool in sorted(candidate.tools, key=lambda tool: tool.name):
            reason, requires = candidate.off.get(tool.name), rules.get(tool.module, tool.requires)
            if requires is None:
                reason, requires = "modules.is_enabled is false", tool.requires
            state, needs = "on" if reason is None else f"off: {reason}", max(requires, tool.requires).label
            summary, tokens = tool.description.partition("\n")[0], _count(tool.schema)
            rows.append((tool.name, candidate.source, needs, state, str(tokens), summary))
    if (not selection and not failed) or module is None:
        rows += [_to_mcp_row(remote_tool) for remote_tool in remote if module in (None, remote_tool.server)]
    if not rows and not failed:
        names = ", ".join(sorted(candidate.name for candidate in all_modules.loaded))
        raise typer.BadParameter(f"there is no module {module!r}; there are: {names}.")
    _show(rows)
    if module is None:
        theirs = [
            tool
            for candidate in all_modules.loaded
            if candidate.name in settings.default_guest_modules
            for tool in candidate.tools
        ]
        tokens = sum(_count(tool.schema) for tool in theirs if tool.requires.label == "guest")
        modules = ", ".join(settings.default_guest_modules)
        say(f"\nA guest without a persona has: {modules} (DEFAULT_GUEST_MODULES), {tokens} tokens in each prompt")
    for failure in failed:
        complain(f"the module {failure.name} ({failure.source}) is off: {failure.reason}")
    if failed:
        raise typer.Exit(1)


def _show(rows: list[tuple[str, ...]]) -> None:
    """Show the rows; the reasons of tools that are off stand below the table, where they have room."""
    off: dict[str, list[str]] = {}
    table_rows = []
    for tool, source, needs, state, *rest in rows:
        word, _, reason = state.partition(": ")
        table_rows.append((tool, source, needs, word, *rest))
        if reason:
            off.setdefault(reason, []).append(tool)
    show_table(COLUMNS, table_rows)
    for number, (reason, tools) in enumerate(off.items()):
        say(f"{'' if number else chr(10)}off: {', '.join(tools)}: {reason}")


async def _read_database(settings: "Settings") -> "tuple[list[Any], ModuleRules]":
    """Return the tools of MCP servers, and what admins have said of modules."""
    from agent.people.module_rules import list_module_rules
    from shared.db.errors import server_errors
    from shared.db.single import SmallDatabase
    from shared.errors import ParleyError

    if settings.database_url is None and not (settings.parley_home / "postgres").exists():
        # Nothing has been started yet, so there is no server either.
        return [], {}
    failures: tuple[type[Exception], ...] = (ParleyError, OSError, *server_errors())
    try:
        database = SmallDatabase(find_database(settings))
        try:
            async with database.transaction() as session:
                remote = list((await session.execute(statements.list_mcp_tools)).all())
                return remote, await list_module_rules(session)
        finally:
            await database.close()
    except failures as error:
        complain(f"the tools of MCP servers are not listed: the database can't be read ({type(error).__name__})")
        return [], {}


def _to_mcp_row(row: Any) -> tuple[str, ...]:
    source, needs = f"MCP ({row.transport})", row.required_permission
    state = "on" if row.approved else "off: mcp_tools.approved is false"
    if not row.enabled:
        state = "off: mcp_servers.enabled is false"
    elif row.last_error is not None:
        state = f"off: {' '.join(row.last_error.split())}"
    elif row.name is None:
        state = "off: not connected yet"
    if row.name is None:
        return row.server, source, needs, state, "", "(has listed no tools)"
    from agent.tools.mcp.remote_tools import to_description, to_own_name

    own_name, description = to_own_name(row.server, row.name), to_description(row.description)
    schema = {"name": f"{row.server}__{own_name}", "description": description, "parameters": row.input_schema}
    summary = description.partition("\n")[0]
    return f"{row.server}.{own_name}", source, needs, state, str(_count({"function": schema})), summary


def _count(schema: dict[str, Any]) -> int:
    from agent.llm.completions import count_prompt

    return count_prompt([schema])
