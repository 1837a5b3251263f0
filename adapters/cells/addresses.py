"""`CELLS`: the names of the cells and where their databases are."""

import re
from collections.abc import Mapping
from pathlib import Path

import asyncpg
from pydantic import SecretStr

from shared.db.database import Address, locate
from shared.db.driver import to_sql
from shared.db.statements import load_statements
from shared.errors import ConfigurationError
from shared.settings import Settings

statements = load_statements(__file__)

# Addresses with several hosts have commas, too.
NAMED = re.compile(r"(?:^|[,\s])\s*([a-z][a-z0-9-]{0,39})=(?=\w+://)")
# Ids tell that many cells apart.
MOST_CELLS = 16


class UnknownCell(ConfigurationError):
    """CELLS names no cell {name}; there are: {names}."""


class WrongCell(ConfigurationError):
    """The database of the cell {name} is {found}; run once: parley server prepare, which tells more."""


def read_cells(settings: Settings) -> Mapping[str, Settings]:
    """Return the settings of each cell by its name, the first one first; raises `ConfigurationError`."""
    text = "" if settings.cells is None else settings.cells.get_secret_value().strip()
    if text.startswith(("/", "./", "~")):
        try:
            text = Path(text).expanduser().read_text("utf-8").strip()
        except OSError as error:
            raise ConfigurationError(f"CELLS: the file can't be read ({error.strerror}).") from None
    start, *parts = NAMED.split(text)
    names = parts[::2]
    if start or not names or len(names) > MOST_CELLS:
        raise ConfigurationError(
            f"CELLS: write a=postgresql://…,b=postgresql://… or the path of a file of such lines; {MOST_CELLS} at most."
        )
    if len(set(names)) < len(names):
        raise ConfigurationError("CELLS names two cells alike; give each a name of its own.")
    urls = dict(zip(names, (part.strip().removesuffix(",") for part in parts[1::2]), strict=True))
    if len(set(urls.values())) < len(urls):
        raise ConfigurationError("CELLS: two cells have the same database; each needs one of its own.")
    own = {name: {"database_url": SecretStr(url), "database_direct_url": None} for name, url in urls.items()}
    return {name: settings.model_copy(update={**values, "cells": None}) for name, values in own.items()}


def get_cell(cells: Mapping[str, Settings], name: str) -> Address:
    """Return the address of a cell; raises `UnknownCell`."""
    if name not in cells:
        raise UnknownCell(name=name, names=", ".join(cells))
    try:
        return locate(cells[name])
    except ConfigurationError as error:
        raise ConfigurationError(f"CELLS, {name}: {error}") from None


async def check_cell(connection: asyncpg.Connection, name: str) -> None:
    """Raise `WrongCell` unless this is the database of the cell."""
    found = await connection.fetchval(to_sql(statements.read_own_name))
    if found != name:
        raise WrongCell(name=name, found="none of a cell yet" if found is None else f"that of the cell {found}")
