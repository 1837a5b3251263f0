"""The folders of the chat platforms, found by walking."""

from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import adapters
from adapters.settings import PlatformSettings
from shared.errors import ConfigurationError

Kind = TypeVar("Kind")


def list_folders() -> dict[str, Path]:
    """Return the folders of the platforms by name."""
    folders = [folder for path in adapters.__path__ for folder in Path(path).iterdir()]
    return {
        folder.name: folder
        for folder in sorted(folders, key=lambda folder: folder.name)
        if (folder / "platform.py").is_file()
    }


def find_settings_class(name: str) -> type[PlatformSettings]:
    """Return the settings class of a platform; what has no `settings.py` has the defaults."""
    is_there = name in (folders := list_folders()) and (folders[name] / "settings.py").is_file()
    return find_class(f"adapters.{name}.settings", PlatformSettings) if is_there else PlatformSettings


def find_class(module: str, kind: type[Kind]) -> type[Kind]:
    """Return the only class of this kind that a file defines."""
    types: list[Any] = [var for var in vars(import_module(module)).values() if isinstance(var, type)]
    classes = [candidate for candidate in types if issubclass(candidate, kind) and candidate.__module__ == module]
    if len(classes) != 1:
        raise ConfigurationError(f"{module} has to define one {kind.__name__}, and defines {len(classes)}.")
    only_class: type[Kind] = classes[0]
    return only_class
