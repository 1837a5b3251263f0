"""What is looked at before a server moves: whether two cells fit together, and what goes and what stays."""

from collections.abc import Collection, Mapping

from msgspec import Struct

from adapters.cells.addresses import UnknownCell
from adapters.cells.moves import Cell, Move
from adapters.folders import find_settings_class, list_folders
from shared.db.driver import to_sql
from shared.db.statements import load_statements
from shared.errors import ConfigurationError

statements = load_statements(__file__)


class SameCell(ConfigurationError):
    """The server lives in {cell} already; name another cell with --to."""


class NotRouted(ConfigurationError):
    """Servers of {platform} live in the first cell: its door does not route them yet."""


class OnItsWay(ConfigurationError):
    """The server is on its way from {source} to {target}; end that move first, with --to {target}, or cancel it, with --to {source}."""  # noqa: E501  # one sentence for people


class GoesBack(ConfigurationError):
    """The move of this server from {target} was cancelled; end that first: the same command with --to {target}."""


class MovedBySomebody(ConfigurationError):
    """Somebody moves this server just now, or looks at what would move; wait for the end of that."""


class DepartureForgotten(ConfigurationError):
    """{target} has this server from {source}, which knows nothing of that: its database was failed over or restored to what it was before. What was said in {source} since then is there alone. If it may be deleted, say so there, with parley psql: SELECT parley_begin_departure('{platform}', '{server}', '{target}'); then run this again."""  # noqa: E501  # sentences for people


class OtherTables(ConfigurationError):
    """The cells {source} and {target} have other tables ({what}); run parley migrate with the same release and modules on both."""  # noqa: E501  # one sentence for people


class OtherCellKey(ConfigurationError):
    """The processes of {source} and {target} have other SECRET_KEYs: links to files and what is encrypted would be lost. Set one SECRET_KEY for all cells."""  # noqa: E501  # one sentence for people


class OtherFiles(ConfigurationError):
    """{files} files of the server are kept in {source_store}, and {target} keeps files in {target_store}. Set the same S3_ENDPOINT and S3_BUCKET for both cells, and copy the files there first."""  # noqa: E501  # one sentence for people


class RowsInTarget(ConfigurationError):
    """{target} has {count} conversations of this server, which no move has brought; look at them first: parley psql."""


class Content(Struct, frozen=True):
    """What a server has: rows by table, rows that are lost, and tables that the schema says nothing about."""

    rows: dict[str, int]
    losses: dict[str, int]
    unknown_tables: tuple[str, ...]


async def count_content(move: Move) -> Content:
    """Return what the server has in the cell that it leaves."""
    rows = [row for row in await move.fetch(move.source, statements.count_rows) if row["rows"]]
    unknown = await move.source.connection.fetch(to_sql(statements.list_unknown_tables))
    return Content(
        {row["name"]: row["rows"] for row in rows if not row["is_lost"]},
        {row["name"]: row["rows"] for row in rows if row["is_lost"]},
        tuple(row["relname"] for row in unknown),
    )


async def find_home(platform: str, server: str, *, to: str, cells: Mapping[str, Cell]) -> str:
    """Return the cell that the server leaves for `to`, also when it is on its way there.

    Nobody else may ask for this server until the connections end: two who move it to different cells would leave it
    between them. Raises `SameCell`, `GoesBack`, `OnItsWay` to another one, `MovedBySomebody`, or `NotRouted`.
    """
    # What is no folder of ours came by the HTTP API, whose routes hand it on.
    if platform in list_folders() and not find_settings_class(platform)().has_cells:
        raise NotRouted(platform=platform)
    first = next(iter(cells.values()))
    if not (await Move(platform, server, source=first, target=first).fetch(first, statements.lock_server))[0][
        "is_ours"
    ]:
        raise MovedBySomebody
    states = {
        name: await Move(platform, server, source=cell, target=cell).read_state(cell) for name, cell in cells.items()
    }
    if missing := {other for _, other in states.values() if other is not None} - cells.keys():
        raise UnknownCell(name=min(missing), names=", ".join(cells))
    if (name := find_unfinished(states, to)) is not None:
        return name
    name = next(iter(cells))
    for _ in cells:
        state, other = states[name]
        if state == "moved" and other is not None:
            name = other
    if name == to:
        raise SameCell(cell=to)
    return name


def find_unfinished(states: Mapping[str, tuple[str | None, str | None]], to: str) -> str | None:
    """Return the cell that a server on its way leaves for `to`; None where it is on no way. Raises as `find_home` does.

    To leave for where it comes from, before its rows have gone, is to cancel the move.
    """
    for name, (state, other) in states.items():
        if state == "returning" and other is not None:
            if other != to:
                raise GoesBack(source=name, target=other)
            return name
    for name, (state, other) in states.items():
        if state in {"arriving", "leaving"} and other is not None:
            source, target = (other, name) if state == "arriving" else (name, other)
            if to == source and states[target][0] == "arriving":
                return target
            if target != to:
                raise OnItsWay(source=source, target=target)
            return source
    return None


async def list_idle(move: Move) -> list[str]:
    """Return the cells of a move in which no worker runs: the one ends no turns, messages wait in the other."""
    counts = {
        cell.name: await cell.connection.fetchval(to_sql(statements.count_workers_alive))
        for cell in (move.source, move.target)
    }
    return [name for name, count in counts.items() if not count]


async def check_move(move: Move, key_hashes: Collection[str]) -> None:
    """Raise `ConfigurationError` with the remedy when the server can't move so; `key_hashes` are of our SECRET_KEYs."""
    source, target = move.source, move.target
    revisions = []
    for cell in (source, target):
        rows = await cell.connection.fetch(to_sql(statements.list_revisions))
        revisions.append({row["revision"] for row in rows})
    if differences := revisions[0] ^ revisions[1]:
        raise OtherTables(source=source.name, target=target.name, what=", ".join(sorted(differences)))
    keys = await _list_key_hashes(source), await _list_key_hashes(target)
    # Of a cell in which nothing runs now, nobody knows the key.
    if any(hashes and not hashes & set(key_hashes) for hashes in keys):
        raise OtherCellKey(source=source.name, target=target.name)
    state, _ = await move.read_state(target)
    if state == "here" and (await move.read_state(source))[0] is None:
        raise DepartureForgotten(platform=move.platform, server=move.server, source=source.name, target=target.name)
    (count,) = (await move.fetch(target, statements.count_conversations))[0]
    if count and state not in {"here", "arriving", "leaving"}:
        raise RowsInTarget(target=target.name, count=count)
    files = (await count_content(move)).rows.get("file_records", 0)
    stores = await _list_stores(source), await _list_stores(target)
    if files and stores[0] and stores[1] and set(stores[0]) != set(stores[1]):
        source_store, target_store = (" and ".join(sorted(store)) for store in stores)
        raise OtherFiles(files=files, source_store=source_store, target=target.name, target_store=target_store)


async def _list_key_hashes(cell: Cell) -> set[str]:
    rows = await cell.connection.fetch(to_sql(statements.list_processes_alive))
    return {key for row in rows for key in row["key_hashes"]}


async def _list_stores(cell: Cell) -> Collection[str]:
    rows = await cell.connection.fetch(to_sql(statements.list_processes_alive))
    return {row["store"] for row in rows}
