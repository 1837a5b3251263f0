"""The registry of panels: every `@panel` in the modules of this package."""

from functools import cache
from importlib import import_module
from pathlib import Path

from agent.commands.panels.base import Panel


@cache
def list_panels() -> tuple[Panel, ...]:
    """Return all panels, sorted by name; every module of this package is imported, including new ones."""
    files = sorted(Path(__file__).parent.glob("[a-z]*.py"))
    modules = (import_module(f"agent.commands.panels.{file.stem}") for file in files)
    found = {each.name: each for module in modules for each in vars(module).values() if isinstance(each, Panel)}
    return tuple(found[name] for name in sorted(found))


def find_panel(name: str) -> Panel | None:
    """Return the panel with this name; None if there is none."""
    return next((each for each in list_panels() if each.name == name), None)
