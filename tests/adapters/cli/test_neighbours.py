"""Processes of one installation that do not fit together: which one may start, and what its operator reads."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import text

from adapters.cli.neighbours import FilesElsewhere, Neighbours, OtherKey
from shared.db.database import Address, Database
from shared.settings import Secrets, Settings
from tests.support.chat_scene import child_environment
from tests.support.connections import connected, run_as_owner
from tests.support.eventually import PATIENCE
from tests.support.forks import get_command

COUNT = text("SELECT count(*) FROM processes")
SECRETS = Secrets("token", ("key",))
S3: dict[str, Any] = {"s3_endpoint": "http://s3.test", "s3_access_key": SecretStr("a"), "s3_secret_key": SecretStr("b")}


@pytest.fixture
async def database(address: Address) -> AsyncIterator[Database]:
    database = Database(address, pool_size=2)
    yield database
    await database.close()


def at(home: Path, **more: Any) -> Settings:
    return Settings(parley_home=home, **more)


async def test_processes_of_one_folder_fit_wherever_they_see_it(database: Database, tmp_path: Path) -> None:
    mounted = tmp_path / "another path"
    (tmp_path / "home").mkdir()
    mounted.symlink_to(tmp_path / "home")

    async with (
        Neighbours(database, at(tmp_path / "home"), SECRETS).joined() as first,
        Neighbours(database, at(tmp_path / "home"), SECRETS).joined() as second,
        Neighbours(database, at(mounted), SECRETS).joined() as third,
    ):
        assert [first, second, third] == [[], [], []]


async def test_a_second_machine_with_a_folder_of_its_own_does_not_start_and_leaves_no_row(
    database: Database, tmp_path: Path
) -> None:
    async with Neighbours(database, at(tmp_path / "one"), SECRETS).joined():
        with pytest.raises(FilesElsewhere, match="Set S3_ENDPOINT, S3_ACCESS_KEY"):
            await Neighbours(database, at(tmp_path / "two"), SECRETS).join()
        async with database.statement() as session:
            assert (await session.execute(COUNT)).scalar_one() == 1

    async with Neighbours(database, at(tmp_path / "two"), SECRETS).joined() as alone:
        assert alone == []


async def test_the_folder_of_a_process_that_was_killed_is_forgotten_with_its_lease(
    database: Database, address: Address, tmp_path: Path
) -> None:
    await Neighbours(database, at(tmp_path / "killed"), SECRETS).join()
    with pytest.raises(FilesElsewhere, match="has just died, start again in a minute"):
        await Neighbours(database, at(tmp_path / "next"), SECRETS).join()
    await run_as_owner(address, "UPDATE processes SET alive_until = now() - interval '1 second'")

    assert await Neighbours(database, at(tmp_path / "next"), SECRETS).join() == []


async def test_one_that_moves_to_s3_starts_beside_those_that_keep_a_folder_and_says_so(
    database: Database, tmp_path: Path
) -> None:
    async with Neighbours(database, at(tmp_path / "old"), SECRETS).joined():
        sentences = await Neighbours(database, at(tmp_path / "new", **S3), SECRETS).join()

    [sentence] = sentences
    assert sentence.startswith("files are kept in http://s3.test/parley here, and in another folder at the process ")


async def test_a_folder_beside_s3_does_not_start(database: Database, tmp_path: Path) -> None:
    async with Neighbours(database, at(tmp_path / "one", **S3), SECRETS).joined():
        with pytest.raises(FilesElsewhere, match="parley at the process"):
            await Neighbours(database, at(tmp_path / "two"), SECRETS).join()


async def test_another_secret_key_does_not_start_and_a_rotated_one_does(database: Database, tmp_path: Path) -> None:
    settings = at(tmp_path, **S3)
    async with Neighbours(database, settings, Secrets("token", ("old",))).joined():
        with pytest.raises(OtherKey, match="Set the same SECRET_KEY for all processes"):
            await Neighbours(database, settings, Secrets("token", ("another",))).join()
        assert await Neighbours(database, settings, Secrets("token", ("new", "old"))).join() == []


async def test_one_that_has_missed_its_lease_says_that_another_key_has_come_meanwhile(
    database: Database, address: Address, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = at(tmp_path, **S3)
    async with Neighbours(database, settings, Secrets("token", ("old",)), renew_seconds=0.2).joined():
        # As if it had been frozen, or the failover of the database had lost its row.
        async with connected(address) as owner, owner.transaction():
            await owner.execute("DELETE FROM processes")
            await owner.execute(
                "INSERT INTO processes (name, store, key_hashes, token_hash, alive_until)"
                " VALUES ('other:1:x', 'http://s3.test/parley', '{another}', '', now() + interval '45 seconds')"
            )
        output = ""
        async with asyncio.timeout(PATIENCE):
            while "process_differs" not in output:
                await asyncio.sleep(0.05)
                output += capsys.readouterr().out
    assert "SECRET_KEY is not that of the process other:1" in output


async def test_another_api_token_starts_and_says_so(database: Database, tmp_path: Path) -> None:
    settings = at(tmp_path, **S3)
    async with Neighbours(database, settings, Secrets("one", ("key",))).joined():
        sentences = await Neighbours(database, settings, Secrets("two", ("key",))).join()

    assert [sentence.partition(" of the process")[0] for sentence in sentences] == ["API_TOKEN is not that"]


async def test_the_start_of_such_a_machine_is_one_sentence(
    database: Database, address: Address, settings: Settings, tmp_path: Path
) -> None:
    env = child_environment(settings, address, tmp_path / "two")
    secrets = Secrets("token", (env["SECRET_KEY"],))
    async with Neighbours(database, at(tmp_path / "one"), secrets).joined():
        child = await asyncio.create_subprocess_exec(
            *get_command(), "worker", env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        _, errors = await child.communicate()

    assert child.returncode == 2
    assert b"Set S3_ENDPOINT, S3_ACCESS_KEY and S3_SECRET_KEY for all processes" in errors
    assert b"Traceback" not in errors
