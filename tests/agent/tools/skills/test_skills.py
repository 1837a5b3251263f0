"""Skills in a turn: listed by name and description, loaded by the model, from a folder and from rows."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shared.db.database import Address
from shared.settings import Settings
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.parley import Parley, open_parley

PERSONA = "INSERT INTO personas (name, system_prompt, is_default, skills) VALUES ('P', 'Be kind.', true, :skills)"
ROW = "INSERT INTO skills (name, description, body, files) VALUES (:name, :description, :body, :files)"
LOAD, READ = "skills__load_skill", "skills__read_skill_file"


@pytest.fixture
async def parley(settings: Settings, address: Address, model: OpenAIStub, tmp_path: Path) -> AsyncIterator[Parley]:
    """A Parley with a folder of skills, one of them in it, and another skill as a row."""
    write(tmp_path / "skills", "meeting-notes", "Write up a meeting.", "# Notes\nUse the form in references/form.md.")
    (tmp_path / "skills" / "meeting-notes" / "references").mkdir()
    (tmp_path / "skills" / "meeting-notes" / "references" / "form.md").write_text("Who, what, until when.")
    settings = settings.model_copy(update={"skills_path": tmp_path / "skills", "default_guest_token_budget": 100_000})
    async with open_parley(settings, address, model) as parley:
        await parley.sql(
            ROW,
            name="house-rules",
            description="Answer about the house's rules.",
            body="x" * 9000,
            files='{"pets.md": "Dogs on Mondays."}',
        )
        yield parley


def write(root: Path, name: str, description: str, body: str) -> None:
    (root / name).mkdir(parents=True, exist_ok=True)
    (root / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {description}\n---\n{body}\n")


def system_prompts(model: OpenAIStub) -> list[str]:
    return [request.body["messages"][0]["content"] for request in model.requests]


def tools(model: OpenAIStub) -> list[str]:
    return [tool["function"]["name"] for tool in model.requests[-1].body["tools"]]


async def results(parley: Parley, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    parley.model.play([Answer(tool_calls=list(calls)), Answer("Done.")])
    return [call.result for call in (await parley.ask("do it")).tool_calls_made]


async def test_a_persona_without_a_list_has_no_skills(parley: Parley, model: OpenAIStub) -> None:
    await parley.ask("hello")
    assert "house-rules" not in system_prompts(model)[-1]
    assert LOAD not in tools(model)

    await parley.sql(PERSONA, skills=None)
    assert (await results(parley, (LOAD, {"name": "house-rules"})))[0]["message"].startswith("There is no tool")


async def test_listed_skills_are_named_and_loaded_with_their_files(parley: Parley, model: OpenAIStub) -> None:
    await parley.sql(PERSONA, skills='["meeting-notes", "house-rules", "lost"]')
    await parley.sql("UPDATE personas SET allowed_modules = '[\"calendar\"]'")

    notes, form, rules, more, pets = await results(
        parley,
        (LOAD, {"name": "meeting-notes"}),
        (READ, {"name": "meeting-notes", "path": "references/form.md"}),
        (LOAD, {"name": "house-rules"}),
        (LOAD, {"name": "house-rules", "offset": 6000}),
        (READ, {"name": "house-rules", "path": "pets.md"}),
    )

    first, second = system_prompts(model)[-2:]
    assert first == second
    assert first.endswith("- house-rules: Answer about the house's rules.\n- meeting-notes: Write up a meeting.")
    assert "references/form.md" not in first
    assert tools(model)[-2:] == [LOAD, READ]
    assert (notes["text"], notes["files"]) == ("# Notes\nUse the form in references/form.md.", ["references/form.md"])
    assert (form["text"], pets["text"]) == ("Who, what, until when.", "Dogs on Mondays.")
    assert (len(rules["text"]), len(more["text"])) == (6000, 3000)
    assert "read on with offset 6000" in rules["note"]


async def test_a_wrong_name_or_path_is_answered_with_the_valid_ones(parley: Parley) -> None:
    await parley.sql(PERSONA, skills='["meeting-notes", "lost"]')

    unlisted, lost, outside, path = await results(
        parley,
        (LOAD, {"name": "house-rules"}),
        (LOAD, {"name": "lost"}),
        (LOAD, {"name": "../skills/meeting-notes"}),
        (READ, {"name": "meeting-notes", "path": "../../api_token"}),
    )

    assert [result["available_skills"] for result in (unlisted, lost, outside)] == [["meeting-notes"]] * 3
    assert unlisted["message"] == "There is no skill 'house-rules' here."
    assert path["files"] == ["references/form.md"]


async def test_changes_of_folder_and_rows_count_from_the_next_message(
    parley: Parley, model: OpenAIStub, tmp_path: Path
) -> None:
    await parley.sql(PERSONA, skills='["house-rules", "meeting-notes", "new"]')
    await parley.ask("hello")
    before = system_prompts(model)[-1]
    await parley.ask("hello")
    assert system_prompts(model)[-1] == before

    write(tmp_path / "skills", "new", "Just arrived.", "Do it.")
    write(tmp_path / "skills", "meeting-notes", "Write up a long meeting.", "Do it at length.")
    await parley.sql("UPDATE skills SET is_enabled = false")
    await parley.ask("hello")
    assert system_prompts(model)[-1].endswith("- meeting-notes: Write up a long meeting.\n- new: Just arrived.")

    # A row is used instead of a folder of the same name.
    await parley.sql(ROW, name="new", description="In the table.", body="As the row says.", files="{}")
    (loaded,) = await results(parley, (LOAD, {"name": "new"}))
    assert "- new: In the table." in system_prompts(model)[-1]
    assert loaded["text"] == "As the row says."


async def test_the_list_is_bounded_however_long_the_descriptions_are(parley: Parley, model: OpenAIStub) -> None:
    names = [f"skill-{number}" for number in range(50)]
    for name in names:
        await parley.sql(ROW, name=name, description="d" * 1024, body="Do.", files="{}")
    await parley.sql("INSERT INTO personas (name, system_prompt, is_default, skills) SELECT 'P', 'Be kind.', true,"
                     " jsonb_agg(name) FROM skills WHERE name LIKE 'skill-%'")  # fmt: skip

    await parley.ask("hello")

    listing = system_prompts(model)[-1]
    assert all(f"- {name}: ddd" in listing for name in names)
    assert len(listing) < 10_000
