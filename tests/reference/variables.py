"""The page of the settings: names, defaults and meanings, as the admin page shows them."""

from importlib import import_module

from adapters.catalogue import list_parts
from shared.settings import MODULES_FOLDER, Settings
from shared.settings.catalogue import Part
from tests.reference.page import build_page, build_table

INTRODUCTION = (
    "How they are read says [the page on operations](../operations.md#settings). A default of *unset* means that the "
    "part is off, or that Parley finds a value by itself."
)


def build_settings() -> str:
    """Return the page: the settings of the program, of each platform and of each module."""
    for init in MODULES_FOLDER.glob("*/__init__.py"):
        import_module(f"modules.{init.parent.name}")
    return build_page("Settings", INTRODUCTION, map(_build_part, list_parts(Settings())))


def _build_part(part: Part) -> str:
    rows = [
        [f"`{setting.name}`", "unset" if setting.default is None else f"`{setting.default}`", setting.meaning]
        for setting in part.settings
    ]
    assert all(meaning for *_, meaning in rows), "a setting has no text below its field"
    return f"## {part.title}\n\n" + build_table(("setting", "default", "meaning"), rows)
