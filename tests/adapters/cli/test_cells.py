"""`parley server`: what an operator types to make cells and to move a server, and what is refused."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from shared.db.database import Address
from shared.db.hosts import URL
from tests.adapters.cli.shell import Shell
from tests.conftest import new_database
from tests.support.connections import run_as_owner


@dataclass
class Operator:
    """Somebody who runs two cells, with a shell in which `CELLS` is set."""

    shell: Shell
    first: Address
    second: Address

    def refused(self, *arguments: str, **settings: str) -> str:
        """Return the sentence with which a command is refused."""
        result = self.shell.run("server", *arguments, **settings)
        assert result.code != 0, result.out
        assert "Traceback" not in result.err
        return " ".join(result.err.split()).removeprefix("parley: ")

    def move(self, to: str = "b", *options: str) -> str:
        """Move the server of the tests; return what is said."""
        return self.shell.says("server", "move", "test", "guild", "--to", to, *options)


def to_url(address: Address) -> str:
    return address.libpq(as_owner=True)


@pytest.fixture
async def operator(postgres: URL, tmp_path: Path) -> AsyncIterator[Operator]:
    async with new_database(postgres) as first, new_database(postgres) as second:
        cells = f"a={to_url(first)},b={to_url(second)}"
        yield Operator(Shell(tmp_path, {"CELLS": cells, "SECRET_KEY": "k" * 20}), first, second)


async def test_a_server_that_was_set_up_ahead_moves_and_is_listed(operator: Operator) -> None:
    # The first cell was used before.
    await run_as_owner(
        operator.first,
        "INSERT INTO servers (platform, platform_server_id, token_budget_monthly) VALUES ('test', 'guild', 5)",
    )
    for _ in range(2):
        prepared = operator.shell.says("server", "prepare").splitlines()
        assert prepared == ["a is ready, as cell 0", "b is ready, as cell 1"]
    assert operator.shell.says("server", "list").strip() == "All servers live in a."

    output = operator.move()
    assert "Nothing was moved; --yes moves it." in output
    assert "servers" in output
    assert operator.shell.says("server", "list").strip() == "All servers live in a."

    assert "test guild lives in b now: 1 rows." in operator.move("b", "--yes")
    assert (
        operator.refused("move", "test", "guild", "--to", "b")
        == "The server lives in b already; name another cell with --to."
    )
    listing = operator.shell.says("server", "list")
    assert [line.split()[-2:] for line in listing.splitlines() if "guild" in line] == [["moved", "b"], ["here", "a"]]
    assert "test guild lives in a now: 1 rows." in operator.move("a", "--yes")


async def test_what_does_not_fit_is_refused_with_the_remedy(operator: Operator) -> None:
    first, second = to_url(operator.first), to_url(operator.second)
    move = ("move", "test", "guild", "--to", "b")
    assert "run once: parley server prepare" in operator.refused(*move)
    assert "two cells have the same database" in operator.refused("prepare", CELLS=f"a={first},b={first}")
    # By another name of the server.
    alike = first.replace("/test_", "/%74est_")
    assert "this database is the cell a with the number 0 already" in operator.refused(
        "prepare", CELLS=f"a={first},b={alike}"
    )
    assert "CELLS: write a=postgresql://" in operator.refused("prepare", CELLS="postgresql://somewhere/a")
    assert "CELLS names two cells alike" in operator.refused("prepare", CELLS=f"a={first},a={second}")

    await run_as_owner(operator.second, "INSERT INTO servers (platform_server_id) VALUES ('old')")
    assert "Only the first cell may have been used before" in operator.refused("prepare")
    await run_as_owner(operator.second, "DELETE FROM servers")
    operator.shell.says("server", "prepare")

    assert operator.refused("move", "test", "guild", "--to", "c") == "CELLS names no cell c; there are: a, b."
    assert (
        operator.refused("move", "test", "guild", "--to", "a")
        == "The server lives in a already; name another cell with --to."
    )
    assert "live in the first cell" in operator.refused("move", "matrix", "home", "--to", "b")
    assert "is that of the cell a" in operator.refused(*move, CELLS=f"b={first},a={second}")
    await run_as_owner(operator.second, "INSERT INTO schema_history (owner, file) VALUES ('modules/x', '0001.sql')")
    assert "modules/x 0001.sql" in operator.refused(*move)
    await run_as_owner(operator.second, "DELETE FROM schema_history WHERE owner = 'modules/x'")
    await run_as_owner(
        operator.second,
        """INSERT INTO processes (name, store, key_hashes, token_hash, alive_until)
        VALUES ('w', 's3/x', '{other}', '', now() + interval '1 hour')""",
    )
    assert "Set one SECRET_KEY for all cells" in operator.refused(*move)


async def test_a_door_refuses_a_database_that_is_no_cell_and_a_run_refuses_cells(operator: Operator) -> None:
    door = operator.shell.run("adapter", "web", PORT="0")
    assert door.code != 0
    assert "run once: parley server prepare" in door.err
    run = operator.shell.run("run", PORT="0")
    assert run.code != 0
    assert "CELLS is for doors" in run.err
