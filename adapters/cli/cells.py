"""`parley server prepare|list|move`: cells, and which server lives in which."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import typer

from adapters.cli.console import say, show_table
from adapters.cli.opening import read_settings
from shared.db.statements import load_statements

if TYPE_CHECKING:
    from adapters.cells.moves import Move
    from shared.settings import Settings

statements = load_statements(__file__)

app = typer.Typer()

STAYS = (
    "What stays: direct messages but Slack's, and what people have told there or everywhere; what each person may "
    "spend, and their permission, which they have in each cell for itself: who is unknown there begins as a guest."
)


@app.command("prepare")
def prepare_cells() -> None:
    """Make the databases in CELLS cells: their tables, and ids that no other cell gives out. Can be done again."""
    from adapters.cells.addresses import get_cell, read_cells
    from adapters.cli.opening import prepare

    cells = read_cells(read_settings(quiet=True))

    async def work() -> None:
        from shared.db.driver import to_sql
        from shared.db.errors import refusals

        connections = {}
        async with AsyncExitStack() as closing:
            for number, (name, settings) in enumerate(cells.items()):
                address = await prepare(settings, get_cell(cells, name))
                connection = connections[name] = await address.connect(as_owner=True)
                closing.push_async_callback(connection.close)
                with refusals():
                    await connection.execute(to_sql(statements.number_cell), number, name)
            # One that was restored must not give out again what has moved to another one since.
            last_ids = {name: await connections[name].fetchval(to_sql(statements.read_last_ids)) for name in cells}
            for connection in connections.values():
                for other in cells:
                    await connection.execute(to_sql(statements.pass_ids), last_ids[other])
        for number, name in enumerate(cells):
            say(f"{name} is ready, as cell {number}")

    asyncio.run(work())


@app.command("list")
def list_servers() -> None:
    """Show which servers live in another cell than the first, and which are on their way."""
    cells = _read_cells()

    async def work() -> list[tuple[str, ...]]:
        from adapters.cells.addresses import get_cell
        from adapters.cells.moves import connected
        from shared.db.driver import to_sql

        rows: list[tuple[str, ...]] = []
        for name in cells:
            async with connected(name, get_cell(cells, name)) as cell:
                rows.extend((name, *row) for row in await cell.connection.fetch(to_sql(statements.list_cells)))
        return rows

    rows = asyncio.run(work())
    if rows:
        show_table(("cell", "platform", "server", "state", "other cell"), rows)
    else:
        say(f"All servers live in {next(iter(cells))}.")


@app.command("move")
def move(
    platform: str = typer.Argument(help="discord, slack, or what an HTTP caller names."),
    server: str = typer.Argument(help="The server's or workspace's id there."),
    to: str = typer.Option(..., "--to", metavar="CELL", help="Where it shall live."),
    yes: bool = typer.Option(False, "--yes", help="Move it; without, only tell what would move."),
    seconds: float = typer.Option(300.0, "--wait", metavar="SECONDS", help="How long its open turns may take to end."),
) -> None:
    """Move a server with all that belongs to it to another cell. Interrupted, run it again; to its old cell cancels."""
    cells = _read_cells()

    async def work() -> None:
        from adapters.cells.addresses import get_cell
        from adapters.cells.checks import check_move, count_content, find_home, list_idle
        from adapters.cells.moves import Move, connected, move_server
        from adapters.cli.neighbours import list_key_hashes
        from shared.settings import load_secrets

        get_cell(cells, to)
        async with AsyncExitStack() as closing:
            by_name = {
                name: await closing.enter_async_context(connected(name, get_cell(cells, name))) for name in cells
            }
            home = await find_home(platform, server, to=to, cells=by_name)
            moving = Move(platform, server, source=by_name[home], target=by_name[to])
            await check_move(moving, list_key_hashes(load_secrets(cells[to])))
            content = await count_content(moving)
            _tell_content(moving, content.rows, content.losses)
            if content.unknown_tables:
                say(f"Nothing is known of {', '.join(content.unknown_tables)}: their rows stay in {home}.")
            for name in await list_idle(moving):
                say(f"No worker runs in {name}.")
            if yes:
                await move_server(moving, say, seconds=seconds)
            else:
                say("Nothing was moved; --yes moves it.")

    from shared.db.errors import refusals

    with refusals():
        asyncio.run(work())


def _read_cells() -> "Mapping[str, Settings]":
    from adapters.cells.addresses import read_cells

    return read_cells(read_settings(quiet=True))


def _tell_content(moving: "Move", rows: "Mapping[str, int]", losses: "Mapping[str, int]") -> None:
    say(f"{moving.platform} {moving.server}: from {moving.source.name} to {moving.target.name}")
    if rows:
        show_table(("table", "rows"), [(name, f"{count:,}") for name, count in rows.items()])
    say(STAYS)
    for name, count in losses.items():
        say(f"What is lost: {count} rows of {name}, which belong to what stays and are of this server.")
