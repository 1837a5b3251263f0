"""All settings of an installation, in parts: the program's, those of each platform, those of each module."""

from collections.abc import Iterator
from importlib import import_module

from adapters.folders import list_folders
from shared.settings import Settings
from shared.settings.catalogue import (
    Part,
    describe_modules,
    describe_others,
    describe_part,
    describe_program,
    find_classes,
)


def list_parts(settings: Settings) -> Iterator[Part]:
    """Yield the parts, those of modules as far as they are loaded; raises `ConfigurationError` for a wrong value."""
    yield describe_program(settings)
    for name, folder in sorted(list_folders().items()):
        if (folder / "settings.py").is_file():
            for kind in find_classes(import_module(f"adapters.{name}.settings")):
                yield describe_part(f"The platform {name}", name, kind, settings=settings)
    yield from describe_modules(settings)


def list_all_parts(settings: Settings) -> list[Part]:
    """Return the parts, and last the variables that libraries read."""
    parts = list(list_parts(settings))
    return [*parts, describe_others({setting.name for part in parts for setting in part.settings})]
