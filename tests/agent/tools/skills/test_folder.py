"""The folder of skills: what is usable is found, what is hostile or broken is off and named, nothing else is read."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.tools.skills.folder import MAX_FILES, SkillFolder
from agent.tools.skills.format import WrongSkill, parse_skill

GOOD = "---\nname: {name}\ndescription: Use it for {name}.\nlicense: MIT\nmetadata: {{version: '1'}}\n---\nDo this."
BOMB = "---\nname: bomb\na: &a [1,1]\n" + "".join(
    f"{b}: &{b} [*{a},*{a}]\n" for a, b in zip("abcdefghijklmnopqrs", "bcdefghijklmnopqrst", strict=False)
)


def write(folder: Path, name: str, text: str | None = None) -> Path:
    home = folder / name
    home.mkdir()
    (home / "SKILL.md").write_text(GOOD.format(name=name) if text is None else text)
    return home


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Just text.", "does not begin with YAML"),
        ("---\nname: [\n---\nDo.", "the YAML can't be read in line 3"),
        ("---\n- name\n---\nDo.", "no mapping"),
        ("---\nname: Ada Lovelace\ndescription: D\n---\nDo.", "name has to be"),
        ("---\nname: a--b\ndescription: D\n---\nDo.", "name has to be"),
        ("---\nname: a\ndescription: [x]\n---\nDo.", "description has to have"),
        (f"---\nname: a\ndescription: {'x' * 1025}\n---\nDo.", "description has to have"),
        ("---\nname: a\ndescription: D\n---\n", "the instructions below"),
        (f"---\nname: a\ndescription: D\n---\n{'x' * 200_001}", "the instructions below"),
        (f"---\nx: {'[' * 10_000}\n---\nDo.", "the YAML can't be read"),
        (f"---\nx: {'y' * 17_000}\n---\nDo.", "the YAML has more than"),
        ("---\nname: !!python/object/apply:os.system [id]\ndescription: D\n---\nDo.", "name has to be"),
        (BOMB + "---\nDo.", "description has to have"),
    ],
)  # fmt: skip
def test_a_broken_text_is_refused_with_its_reason(text: str, reason: str) -> None:
    with pytest.raises(WrongSkill, match=reason.replace("(", r"\(")):
        parse_skill(text)


@settings(max_examples=60)
@given(st.text(max_size=80), st.text(max_size=40))
def test_any_text_is_a_skill_or_refused(front_matter: str, body: str) -> None:
    try:
        skill = parse_skill(f"---\n{front_matter}\n---\n{body}")
    except WrongSkill:
        return
    assert skill.name
    assert skill.body


def test_changes_count_at_once(tmp_path: Path) -> None:
    folder = SkillFolder(tmp_path)
    assert folder.find("notes") is None
    home = write(tmp_path, "notes")
    assert str(folder.find("notes")).count("Use it for notes.") == 1

    (home / "draft").write_text(GOOD.format(name="notes").replace("Use it", "Take it"))
    (home / "draft").replace(home / "SKILL.md")
    skill = folder.find("notes")
    assert skill is not None
    assert skill.description == "Take it for notes."

    (home / "SKILL.md").write_text("gone wrong")
    assert folder.find("notes") is None


def test_nothing_outside_of_the_folder_is_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("the secret")
    root = tmp_path / "skills"
    root.mkdir()
    home = write(root, "notes")
    (home / "inner.md").write_text("inside")
    (home / "linked.md").symlink_to("inner.md")
    (home / "out.md").symlink_to(secret)
    (home / "all").symlink_to(tmp_path)
    (home / "loop").symlink_to("loop")
    os.mkfifo(home / "pipe")
    write(tmp_path, "elsewhere")
    (root / "elsewhere").symlink_to(tmp_path / "elsewhere")
    (root / "piped").mkdir()
    os.mkfifo(root / "piped" / "SKILL.md")
    folder = SkillFolder(root)

    assert folder.read("notes").files == ("inner.md", "linked.md")
    assert folder.read_file("notes", "linked.md") == "inside"
    for path in ("out.md", "all/secret.md", "../../secret.md", str(secret), "pipe", "loop", "", ".", "\0", "x" * 5000):
        with pytest.raises(WrongSkill):
            folder.read_file("notes", path)
    for name in ("..", ".", "../skills/notes", "elsewhere", "piped", ""):
        assert folder.find(name) is None
        with pytest.raises(WrongSkill):
            folder.read_file(name, "SKILL.md")
    problems = {finding.name: finding.problems for finding in folder.examine()}
    assert set(problems["notes"]) == {
        "out.md leads out of the skill's folder",
        "all leads out of the skill's folder",
        "loop can't be read",
    }
    assert problems["elsewhere"] == ("its folder is a link that leads somewhere else",)
    assert problems["piped"] == ("SKILL.md is no file",)


def test_large_and_broken_folders_are_off_or_cut_and_named(tmp_path: Path) -> None:
    home = write(tmp_path, "large")
    with (home / "data.bin").open("wb") as file:
        file.truncate(100_000_000)
    (home / "image.png").write_bytes(b"\x89PNG\xff")
    for number in range(MAX_FILES + 20):
        (home / f"{number}.md").write_text("x")
    with (write(tmp_path, "huge") / "SKILL.md").open("ab") as file:
        file.truncate(100_000_000)
    write(tmp_path, "Wrong Name")
    write(tmp_path, "other", GOOD.format(name="another"))
    (tmp_path / "empty").mkdir()
    folder = SkillFolder(tmp_path)

    findings = {finding.name: finding for finding in folder.examine()}

    large = findings["large"]
    assert large.skill is not None
    assert len(large.skill.files) <= MAX_FILES
    assert any("more than 100 files" in problem for problem in large.problems)
    assert {name: finding.problems[0] for name, finding in findings.items() if finding.skill is None} == {
        "huge": "SKILL.md has more than 800,000 bytes",
        "Wrong Name": "a skill's folder is named with a-z, 0-9 and single hyphens between them",
        "other": "its name is another, its folder's is not: they have to be the same",
        "empty": "SKILL.md can't be read (No such file or directory)",
    }
    with pytest.raises(WrongSkill, match="more than 1,000,000 bytes"):
        folder.read_file("large", "data.bin")
    with pytest.raises(WrongSkill, match="no text in UTF-8"):
        folder.read_file("large", "image.png")
    with pytest.raises(WrongSkill, match="can't be read"):
        list(SkillFolder(tmp_path / "missing").examine())
