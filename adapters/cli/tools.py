"""`parley tools`: what the model may be offered, and to whom."""

import typer

from adapters.cli.console import complain, say, show_table
from adapters.cli.opening import read_settings

app = typer.Typer()


@app.command("tools")
def list_tools(
    module: str | None = typer.Argument(None, help="Only this module's tools."),
) -> None:
    """List the tools with the permission that each needs; modules that fail to load are named."""
    from agent.tools.modules import discover

    settings = read_settings(quiet=True)
    toolbox = discover(settings.tool_result_max_chars)
    shown = [each for each in toolbox.tools if module in (None, each.module)]
    if module is not None and not shown and module not in toolbox.failures:
        known = ", ".join(sorted({each.module for each in toolbox.tools}))
        raise typer.BadParameter(f"there is no module {module!r} with tools; there are: {known}.")
    rows = [(each.module, each.name, each.requires.label, each.description.partition("\n")[0]) for each in shown]
    show_table(("module", "tool", "needs", "description"), rows)
    if module is None:
        say(f"\nA guest without a persona has: {', '.join(settings.default_guest_modules)} (DEFAULT_GUEST_MODULES)")
    for name, reason in toolbox.failures.items():
        complain(f"the module {name} is off: it fails to load ({reason})")
    if toolbox.failures:
        raise typer.Exit(1)
