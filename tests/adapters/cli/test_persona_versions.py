"""What operators type about the versions of a persona."""

import json
from pathlib import Path

import pytest

from shared.errors import Refusal
from tests.support.command_line import types
from tests.support.parley import Parley


async def test_versions_are_listed_compared_and_rolled_back(parley: Parley, tmp_path: Path) -> None:
    async def typed(*arguments: str) -> str:
        return await types(parley.app.database.address, tmp_path, "persona", *arguments)

    await typed("create", "Sage", "--prompt", "You are wise.\nYou are brief.", "--default")
    answer = await parley.ask("Who are you?")
    await parley.sql("UPDATE personas SET system_prompt = E'You are wise.\\nYou are kind.', max_iterations = 3")
    await parley.ask("And now?")

    rows = [line.split() for line in (await typed("history", "Sage")).splitlines()[2:]]
    assert [(line[0], line[-1]) for line in rows] == [("3", "1"), ("2", "1"), ("1", "0")]
    assert "system_prompt," in rows[0]
    assert json.loads(await typed("history", "Sage", "--json"))[0]["fields"]["name"] == "Sage"
    difference = (await typed("diff", "Sage")).splitlines()
    assert "-You are brief." in difference
    assert "+You are kind." in difference
    assert "+max_iterations: 3" in difference
    assert await typed("rollback", "Sage", "2") == "Sage is as in version 2 again; this is its version 4\n"
    assert await parley.value("SELECT system_prompt FROM personas") == "You are wise.\nYou are brief."

    await parley.sql("DELETE FROM personas USING set_config('parley.delete_history', 'yes', true)")
    query = "SELECT name, version FROM turns JOIN persona_versions ON persona_version_id = persona_versions.id"
    assert await parley.sql(f"{query} WHERE turns.id = :id", id=answer.turn_id) == [("Sage", 2)]
    with pytest.raises(Refusal, match="There is no version 9; there are 1 to 5"):
        await typed("diff", "Sage", "9")
