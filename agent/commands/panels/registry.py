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
    panels = {entry.name: entry for module in modules for entry in vars(module).values() if isinstance(entry, Panel)}
    return tuple(panels[name] for name in sorted(panels))


def find_panel(name: str) -> Panel | None:
    """Return the panel with this name; None if there is none."""
    return next((panel for panel in list_panels() if panel.name == name), None)
