"""Manifests that somebody has written to do harm, or by mistake."""

from pathlib import Path

import pytest
import yaml

from tests.deploy.test_manifests import PIRATE, Installation, installation, limit, with_spec

__all__ = ["installation"]

HEAD = "apiVersion: parley.chat/v1alpha1\nkind: Persona\nmetadata: {name: pirate}\nspec:\n  instructions: "
# Each line says the one before twice.
BOMB = "a0: &a0 [x, x]\n" + "".join(
    f"a{number}: &a{number} [*a{number - 1}, *a{number - 1}]\n" for number in range(1, 40)
)
TEXTS = {
    "an alias": f"{BOMB}{HEAD}*a39\n",
    "a loop": "apiVersion: parley.chat/v1alpha1\nkind: Persona\nmetadata: {name: a}\nspec: &a {instructions: *a}\n",
    "depth": "[" * 100_000,
    "no date": f"{HEAD}2026-13-45\n",
    "no bool": f"{HEAD}!!bool perhaps\n",
    "no time": f"{HEAD}!!timestamp soon\n",
    "no int": f'{HEAD}!!int ""\n',
    "digits": f"{HEAD}{'1' * 5000}\n",
    "a program": f"{HEAD}!!python/object/apply:os.system [id]\n",
    "a key twice": f"{HEAD}one\n  instructions: two\n",
    "NUL": f'{HEAD}"a\\0b"\n',
    "half a character": f'{HEAD}"a\\ud800b"\n',
    "an escape sequence": 'apiVersion: "\\ud800"\nkind: "\\e[2J\\x9b"\n',
    "no list": "kind: List\nitems: 3\n",
    "a set": "!!set {a, b}\n",
}
SERVER = {
    **PIRATE,
    "kind": "McpServer",
    "metadata": {"name": "clock"},
    "spec": {"url": "https://clock.example", "headers": {"X-Key": "open-sesame"}},
}


async def test_a_hostile_text_is_refused_in_a_sentence(installation: Installation, subtests: pytest.Subtests) -> None:
    for name, text in TEXTS.items():
        with subtests.test(name):
            code, output, errors = await installation.parley("apply", "-", stdin=text)
            fault, end = errors.splitlines()
            assert (code, output, end) == (1, "", "parley: nothing is changed")
            assert fault.startswith("parley: -")
            assert fault.isprintable()


async def test_a_number_that_no_column_holds_is_refused(installation: Installation) -> None:
    for resource in (
        with_spec(PIRATE, maxTokens=2**31),
        limit(kind="installation", tokens=2**63),
        limit(kind="installation", dollars=float("inf")),
        limit(kind="installation", dollars=1e300),
    ):
        code, _, errors = await installation.apply(resource)
        assert code == 1, resource
        assert errors.endswith("nothing is changed\n")
        assert "Traceback" not in errors


async def test_a_refusal_does_not_tell_the_row_with_its_secrets(installation: Installation) -> None:
    code, output, errors = await installation.apply({**SERVER, "metadata": {"name": "no-such-name"}})
    assert code == 1
    assert "the rule is that name is lower case words joined by underscores" in output
    assert "sesame" not in output + errors


async def test_a_plan_does_not_move_the_cursor(installation: Installation) -> None:
    await installation.apply(PIRATE)
    _, output, _ = await installation.apply(with_spec(PIRATE, instructions="You\n\x1b[1A\x9b2Kare no pirate."))
    assert "are no pirate." in output
    assert all(line.isprintable() for line in output.splitlines())


async def test_prune_without_any_manifest_is_refused(installation: Installation, tmp_path: Path) -> None:
    await installation.apply(PIRATE)
    (tmp_path / "empty").mkdir()
    for path in ("-", str(tmp_path / "empty")):
        code, output, errors = await installation.parley("apply", path, "--prune")
        assert (code, output) == (1, "")
        assert "holds no manifest" in errors
    assert await installation.owner.fetchval("SELECT count(*) FROM personas") == 1


async def test_prune_leaves_the_rows_of_the_operator(installation: Installation) -> None:
    await installation.owner.execute(
        "BEGIN; SET LOCAL parley.actor = 'kubernetes:chat'; SELECT admin.define_persona('sailor', 'You sail.'); COMMIT"
    )
    assert (await installation.apply(PIRATE, options=("--prune",)))[0] == 0
    assert await installation.owner.fetchval("SELECT count(*) FROM personas") == 2


async def test_a_folder_is_read_without_what_is_hidden_in_it_or_lies_outside(
    installation: Installation, tmp_path: Path
) -> None:
    """So Kubernetes mounts a ConfigMap: links to a hidden folder beside them."""
    folder, outside = tmp_path / "mount", tmp_path / "outside.yaml"
    (folder / "..2026").mkdir(parents=True)
    (folder / "..2026/pirate.yaml").write_text(yaml.safe_dump(PIRATE), "utf-8")
    (folder / "..data").symlink_to("..2026")
    (folder / "pirate.yaml").symlink_to("..data/pirate.yaml")
    assert (await installation.parley("apply", str(folder)))[1].startswith("+ Persona/pirate")

    outside.write_text("kind: sesame\n", "utf-8")
    (folder / "other.yaml").symlink_to(outside)
    code, output, errors = await installation.parley("apply", str(folder))
    assert (code, output) == (1, "")
    assert "other.yaml: it is a link to a file outside" in errors
    assert "sesame" not in errors


async def test_an_agent_of_nobodys_manifest_does_not_go_with_the_persona_that_answers_for_it(
    installation: Installation,
) -> None:
    await installation.apply(PIRATE)
    await installation.owner.execute("SELECT admin.define_agent('scout', 'Finds.', persona => 'pirate')")
    code, output, errors = await installation.apply(limit(kind="installation", tokens=1), options=("--prune",))
    assert (code, errors) == (1, "parley: 1 refused; nothing is changed\n")
    assert "! Persona/pirate: the persona pirate answers for: scout; delete these agents before" in output
    assert await installation.owner.fetchval("SELECT count(*) FROM agents") == 1
