"""Which panels there are: every `@panel` in the files of this folder."""

from functools import cache
from importlib import import_module
from pathlib import Path

from agent.panels.base import Panel


@cache
def list_panels() -> tuple[Panel, ...]:
    """Return every panel by name; a new file in this folder is found by itself."""
    files = sorted(Path(__file__).parent.glob("[a-z]*.py"))
    modules = (import_module(f"agent.panels.{file.stem}") for file in files)
    found = {each.name: each for module in modules for each in vars(module).values() if isinstance(each, Panel)}
    return tuple(found[name] for name in sorted(found))


def find_panel(name: str) -> Panel | None:
    """Return the panel of this name, None when there is none."""
    return next((each for each in list_panels() if each.name == name), None)
