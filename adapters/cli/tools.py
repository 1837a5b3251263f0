"""`parley tools`: the modules, their source, and the permission of each tool."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from adapters.cli.console import complain, say, show_table
from adapters.cli.opening import read_settings

if TYPE_CHECKING:
    from agent.tools.modules import Module

app = typer.Typer()


@app.command("tools")
def list_tools(
    module: str | None = typer.Argument(None, help="Only this module's tools."),
) -> None:
    """List the tools with their module's source and the permission that each needs; modules that are off are named."""
    from agent.tools.modules import find_modules

    settings = read_settings(quiet=True)
    found = find_modules(settings.modules_path)
    shown = sorted((each for each in found.loaded if module in (None, each.name)), key=lambda each: each.name)
    failed = [each for each in found.failed if module in (None, each.name)]
    if not shown and not failed:
        known = ", ".join(sorted(each.name for each in found.loaded))
        raise typer.BadParameter(f"there is no module {module!r}; there are: {known}.")
    show_table(("tool", "source", "needs", "description"), [row for each in shown for row in _to_rows(each)])
    if module is None:
        say(f"\nA guest without a persona has: {', '.join(settings.default_guest_modules)} (DEFAULT_GUEST_MODULES)")
    for each in failed:
        complain(f"the module {each.name} ({each.source}) is off: {each.reason}")
    if failed:
        raise typer.Exit(1)


def _to_rows(module: "Module") -> Iterator[tuple[str, ...]]:
    if not module.tools:
        yield module.name, module.source, "", "(has no tools)"
    for tool in sorted(module.tools, key=lambda each: each.name):
        yield tool.name, module.source, tool.requires.label, tool.description.partition("\n")[0]
