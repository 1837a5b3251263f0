"""What each setting means, by default and in this process: for the page of the reference, and for admins."""

import ast
import inspect
import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args, get_type_hints

from msgspec import Struct
from pydantic import SecretStr

from shared.redaction import MARK, redact_field
from shared.settings import MODULES_FOLDER, PROVIDER_NAME, Settings, read_env_file
from shared.settings.model import HOME
from shared.settings.module_folders import list_entry_points, list_module_folders

# What a secret shows of itself.
SET = "set"
# What the redactor leaves for the sake of ordinary words: no setting is worth a part of a secret. Of an address it is
# whatever stands before the last @, its parameters, and a long part of the path that is no word, as webhooks have one.
KEY_NAME = re.compile(r"_(KEYS?|PASS|PASSWORDS|SECRETS|DSN)$")
SIGNED_IN = re.compile(r"(?<=://)\S*(?=@)|^[^\s/]+(?=@)")
QUERY = re.compile(r"(://[^\s?#]*[?#])\S+")
PATH_TOKEN = re.compile(r"(?<=[^/]/)(?=[^/?#,\s]*(?:\d|[a-z][A-Z]|[A-Z]{2}[a-z]))[\w~+=.:-]{20,}(?=[/?#,\s]|$)")

Source = Literal["default", "environment", ".env"]


class Setting(Struct, frozen=True):
    """A setting as this process has it; None is unset, and of a secret only `SET` is told.

    `waits` says that the file now has another value than the process: it counts after a restart, unless the
    environment has one.
    """

    name: str
    meaning: str
    default: str | None
    value: str | None
    source: Source
    waits: bool


class Part(Struct, frozen=True):
    """The settings of the program, of a platform or of a module."""

    title: str
    settings: tuple[Setting, ...]


def describe_program(settings: Settings) -> Part:
    """Return the program's own settings."""
    defaults = Settings().model_copy(update={"parley_home": Path(HOME)})
    return Part("The program", tuple(_describe(Settings, "", defaults, values=settings)))


def describe_part(title: str, folder: str, kind: type[Any], settings: Settings) -> Part:
    """Return the settings of a platform or a module, whose variables begin with the name of its folder."""
    values = settings.of_module(kind, folder)
    return Part(title, tuple(_describe(kind, f"{folder.upper()}_", kind(), values=values)))


def describe_modules(settings: Settings) -> Iterator[Part]:
    """Yield the settings of each module that is loaded and has some."""
    packages = {point.name: point.module for point in list_entry_points()}
    for name, folder in sorted(list_module_folders(settings.modules_path).items()):
        is_package = folder.parent not in (MODULES_FOLDER, settings.modules_path)
        package = packages[name] if is_package else f"{MODULES_FOLDER.name}.{name}"
        for module in filter(None, (sys.modules.get(f"{package}.settings"), sys.modules.get(package))):
            for kind in find_classes(module):
                yield describe_part(f"The module {name}", name, kind, settings=settings)


def find_classes(module: ModuleType) -> list[type[Any]]:
    """Return the classes of settings that a file defines, and which have a field."""
    classes = [var for var in vars(module).values() if inspect.isclass(var) and var.__module__ == module.__name__]
    return [kind for kind in classes if kind.__name__.endswith("Settings") and get_type_hints(kind)]


def describe_others(known: Collection[str]) -> Part:
    """Return the variables that libraries read, of which only that they are set is told; not those that are `known`."""
    from_file = read_env_file()
    names = (name for name, value in os.environ.items() if value and PROVIDER_NAME.search(name) and name not in known)
    # Those of litellm are set by the program itself.
    others = [name for name in sorted(names) if not name.startswith("LITELLM_")]
    meaning = "Read by a library, such as that of a provider."
    sources = {name: _find_source(name, from_file) for name in others}
    return Part(
        "Variables of libraries",
        tuple(
            Setting(name, meaning, default=None, value=SET, source=source, waits=waits)
            for name, (source, waits) in sources.items()
        ),
    )


def to_text(value: Any) -> str | None:
    """Return a value as one writes it into `.env`, None for unset; paths without the folder of this machine."""
    if value in (None, (), {}):
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Path) and value.is_relative_to(sys.prefix):
        return str(Path(".venv") / value.relative_to(sys.prefix))
    if isinstance(value, dict):
        return ",".join(f"{name}={part}" for name, part in value.items())
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _describe(kind: type[Any], prefix: str, defaults: Any, values: Any) -> Iterator[Setting]:
    meanings = read_meanings(kind)  # type: ignore[arg-type]  # it is hashable
    types, from_file = get_type_hints(kind), read_env_file()
    names = list(Settings.model_fields) if kind is Settings else [field.name for field in fields(kind)]
    for field in names:
        name, value = prefix + field.upper(), getattr(values, field)
        default, text = to_text(getattr(defaults, field)), to_text(value)
        if SecretStr in (types[field], *get_args(types[field])):
            text = None if value is None else SET
        elif (text := text or os.environ.get(name) or None) is not None:
            # `off` is a word for None. And modules of others may keep a secret as a text.
            text = MARK if KEY_NAME.search(name) else str(redact_field(name, text))
            text = SIGNED_IN.sub(MARK, QUERY.sub(rf"\1{MARK}", text))
            text = PATH_TOKEN.sub(MARK, text) if "://" in text else text
        source, waits = _find_source(name, from_file)
        shown = SET if text == MARK else text
        yield Setting(name, meanings.get(field, ""), default, value=shown, source=source, waits=waits)


def _find_source(name: str, from_file: Mapping[str, str]) -> tuple[Source, bool]:
    value, in_file = os.environ.get(name, ""), from_file.get(name, "")
    if not value:
        return "default", bool(in_file)
    # What the file has is put into the environment at the start.
    return (".env", False) if value == in_file else ("environment", bool(in_file))


@cache
def read_meanings(kind: Any) -> Mapping[str, str]:
    """Return the text that stands below each field of a class."""
    (node,) = ast.parse(inspect.getsource(kind)).body
    body = node.body  # type: ignore[attr-defined]  # it is a class
    pairs = pairwise(body)
    return {
        field.target.id: text.value.value
        for field, text in pairs
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }
