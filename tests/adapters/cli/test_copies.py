"""What operators take out of a database: a person's export, psql's exit code, a dump, a backup."""

import json
import os
from pathlib import Path

import pytest

from tests.adapters.cli.shell import Shell, cell
from tests.adapters.cli.test_chatting import ask


def test_a_person_is_exported_and_erased_with_a_receipt(shell: Shell) -> None:
    shell.says("user", "promote", "web:zoe", "user", "--new")
    person = cell(shell, "SELECT user_id FROM user_platform_links WHERE platform_user_id = 'zoe'")

    assert json.loads(shell.says("user", "export", "web:zoe"))["accounts"][0]["platform_user_id"] == "zoe"
    assert "Add --yes" in shell.run("user", "erase", "web:zoe").err
    receipt = shell.says("user", "erase", "web:zoe", "--yes").strip()
    assert '"accounts": 1' in shell.says("verify-receipt", receipt)
    assert shell.says("user", "erase", person).strip() == receipt
    for forged in (receipt.replace("accounts", "Accounts"), os.fsdecode(b"\xff" + receipt.encode()), "", "x"):
        result = shell.run("verify-receipt", forged)
        assert (result.code, result.err.startswith("parley: This is no receipt of this installation")) == (1, True)
    assert cell(shell, "SELECT count(*) FROM user_platform_links WHERE platform_user_id = 'zoe'") == "0"
    # Elsewhere the key that has signed it is enough, and nothing is made: a backup could not be restored there.
    for key, code in (((shell.home / "secret_key").read_text(), 0), ("another", 1), ("", 1)):
        elsewhere = {"PARLEY_HOME": str(shell.folder / "elsewhere")} | ({"SECRET_KEY": key} if key else {})
        assert shell.run("verify-receipt", receipt, **elsewhere).code == code
    assert not (shell.folder / "elsewhere").exists()


@pytest.mark.parametrize(("query", "code"), [("SELECT 1", 0), ("SELEKT", 1)])
def test_psql_s_exit_code_is_passed_on(shell: Shell, query: str, code: int) -> None:
    assert shell.run("psql", "-c", query).code == code


def test_a_dump_brings_back_what_was_there(shell: Shell) -> None:
    shell.says("user", "set-budget", "discord:90", "1234", "--new")
    assert "copy.dump" in shell.says("dump", "copy.dump")
    shell.says("user", "set-budget", "discord:90", "1")

    assert shell.run("restore", "copy.dump").code == 2
    assert "0 of 1" in shell.says("user", "show", "discord:90")
    assert shell.says("restore", "copy.dump", "--yes") == "restored\n"

    assert "0 of 1,234" in shell.says("user", "show", "discord:90")
    assert shell.run("chat", stdin="/me\n").code == 0
    # An id that was given out since the copy is not given out again.
    assert int(cell(shell, "SELECT nextval('turns_id_seq')", "--superuser")) > 1_000_000


def test_a_dump_is_not_put_back_under_a_parley_that_runs(shell: Shell) -> None:
    shell.says("dump", "running.dump")
    with shell.start("chat", DEBUG_MOCK_RESPONSES='["fine"]') as chat:
        assert ask(chat, "hello") == "fine"
        refusal = shell.run("restore", "running.dump", "--yes")
        assert refusal.code == 1
        assert "Others use the database: parley, process" in refusal.err
        assert ask(chat, "hello") == "fine"
        chat.communicate()


def test_a_damaged_dump_changes_nothing(shell: Shell) -> None:
    shell.says("user", "set-budget", "discord:91", "1234", "--new")
    shell.says("dump", "good.dump")
    whole = (shell.folder / "good.dump").read_bytes()
    # The second one ends among the rows, when the tables of before are gone.
    for damaged in (b"PGDMP nonsense", whole[: len(whole) * 9 // 10]):
        (shell.folder / "bad.dump").write_bytes(damaged)

        assert shell.run("restore", "bad.dump", "--yes").code == 1
        assert "0 of 1,234" in shell.says("user", "show", "discord:91")


def test_tables_that_are_there_are_left_alone(shell: Shell) -> None:
    assert shell.says("migrate").endswith("nothing to change\n")


def test_a_backup_is_verified_and_brings_everything_back_in_a_new_folder(shell: Shell) -> None:
    shell.says("user", "set-budget", "discord:92", "4321", "--new")
    # The open psql of the fixture.
    assert "Others use the database: psql (role parley_admin, from this machine" in shell.run("backup", "all.zip").err

    assert "entries in the audit log; it holds secrets" in shell.says("backup", "all.zip", "--live")
    assert "all.zip is whole, and could be restored: " in shell.says("backup", "verify", "all.zip")
    tries = "SELECT string_agg(coalesce(left(error, 6), 'made') || (verified_at IS NULL), ' ' ORDER BY id) FROM backups"
    assert cell(shell, tries) == "Otherstrue madefalse"
    assert "the last one is of" in shell.run("doctor").out
    result = shell.run("restore", "all.zip")
    assert (result.code, "holds postgres and" in result.err) == (2, True)
    whole = (shell.folder / "all.zip").read_bytes()
    (shell.folder / "cut.zip").write_bytes(whole[:-100])
    new = str(shell.folder / "new")
    cut = shell.run("restore", "cut.zip", PARLEY_HOME=new)
    assert (cut.code, "cut.zip is cut off" in cut.err, Path(new).exists()) == (1, True, False)

    assert "restored the backup of " in shell.says("restore", "all.zip", PARLEY_HOME=new)

    assert "0 of 4,321" in shell.says("user", "show", "discord:92", PARLEY_HOME=new)
    for name in ("api_token", "secret_key"):
        assert (Path(new) / name).read_text() == (shell.home / name).read_text()
        assert (Path(new) / name).stat().st_mode & 0o777 == 0o600
