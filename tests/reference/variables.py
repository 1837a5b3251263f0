"""The page of the settings: names and defaults from the classes, the meanings from the texts below their fields."""

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from importlib import import_module
from pathlib import Path
from typing import Any

from adapters.cli.platforms import find_settings_class
from adapters.folders import list_folders
from shared.settings import MODULES_FOLDER, Settings
from tests.reference.page import build_page, build_table

INTRODUCTION = (
    "How they are read says [the page on operations](../operations.md#settings). A default of *unset* means that the "
    "part is off, or that Parley finds a value by itself."
)


def build_settings() -> str:
    """Return the page: the settings of the program, of each platform and of each module."""
    own = {name.upper(): getattr(Settings(), name) for name in Settings.model_fields} | {"PARLEY_HOME": Path(".parley")}
    return build_page(
        "Settings",
        INTRODUCTION,
        [
            _build_part("The program", "", Settings, own),
            *(_build_platform(name) for name in sorted(list_folders()) if find_settings_class(name).__annotations__),
            *(_build_part(f"The module {name}", name, kind, _defaults(kind)) for name, kind in _list_of_modules()),
        ],
    )


def _build_platform(name: str) -> str:
    kind = find_settings_class(name)
    return _build_part(f"The platform {name}", name, kind, _defaults(kind))


def _list_of_modules() -> Iterator[tuple[str, type[Any]]]:
    """Yield the class of each module that has one, from its `settings.py` or its only file."""
    for folder in sorted(path.parent for path in MODULES_FOLDER.glob("*/__init__.py")):
        file = ".settings" if (folder / "settings.py").is_file() else ""
        module = import_module(f"modules.{folder.name}{file}")
        for kind in vars(module).values():
            if inspect.isclass(kind) and kind.__module__ == module.__name__ and kind.__name__.endswith("Settings"):
                yield folder.name, kind


def _defaults(kind: type[Any]) -> dict[str, Any]:
    assert all(field.default is not MISSING for field in fields(kind))
    return {field.name.upper(): field.default for field in fields(kind)}


def _build_part(title: str, prefix: str, kind: type[Any], defaults: Mapping[str, Any]) -> str:
    meanings = read_meanings(kind)
    before = f"{prefix.upper()}_" if prefix else ""
    rows = [[f"`{before}{name}`", to_text(value), meanings[name.lower()]] for name, value in defaults.items()]
    return f"## {title}\n\n" + build_table(("setting", "default", "meaning"), rows)


def read_meanings(kind: type[Any]) -> dict[str, str]:
    """Return the text that stands below each field of a class; raises `KeyError` on the page where there is none."""
    (node,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(node, ast.ClassDef)
    pairs = zip(node.body, node.body[1:], strict=False)
    return {
        field.target.id: text.value.value
        for field, text in pairs
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }


def to_text(value: Any) -> str:
    """Return a default as one writes it into `.env`; paths without the folder of this machine."""
    if value in (None, (), {}):
        return "unset"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, Path) and value.is_relative_to(sys.prefix):
        return f"`{Path('.venv') / value.relative_to(sys.prefix)}`"
    return f"`{','.join(value)}`" if isinstance(value, tuple) else f"`{value}`"
