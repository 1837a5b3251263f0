"""Builds the pages of `docs/reference`, and the chart's definitions; `make reference` writes them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import asyncpg

from adapters.kubernetes.schemas import write_definitions
from tests.reference.code import build_commands, build_metrics, build_permissions
from tests.reference.database import build_admin, build_tables
from tests.reference.variables import build_settings
from tests.support.source_tree import ROOT

FOLDER = ROOT / "docs/reference"
DEFINITIONS = ROOT / "deploy/helm/parley/crds"


async def build_pages(connection: asyncpg.Connection) -> dict[str, str]:
    """Return the text of each page by its name; `connection` is that of the owner of a migrated database."""
    return {
        "settings": build_settings(),
        "commands": build_commands(),
        "admin": await build_admin(connection),
        "tables": await build_tables(connection),
        "metrics": build_metrics(),
        "permissions": build_permissions(),
        **write_definitions(),
    }


def find_page(name: str) -> Path:
    """Return where a page stands, or a file of the chart."""
    return DEFINITIONS / name if name.endswith(".yaml") else FOLDER / f"{name}.md"


def list_stale(pages: dict[str, str]) -> Iterator[str]:
    """Yield the names of pages that differ from the files."""
    for name, text in pages.items():
        if not find_page(name).is_file() or find_page(name).read_text("utf-8") != text:
            yield name


__all__: Sequence[str] = ("build_pages", "find_page", "list_stale")
