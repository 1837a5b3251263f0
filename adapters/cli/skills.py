"""`parley skill …`: the skills in the folder and in the table."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from adapters.cli.console import complain, say, show_table
from adapters.cli.opening import in_transaction
from shared.db.statements import load_statements
from shared.errors import Refusal
from shared.text import write_json

if TYPE_CHECKING:
    from agent.tools.skills.folder import Examined
    from shared.db.driver import Session
    from shared.settings import Settings

statements = load_statements(__file__)

app = typer.Typer(help="Skills: list, add, show, remove.", no_args_is_help=True)


@app.command("list")
def list_skills() -> None:
    """List all skills, where each is, which personas list it, and what is wrong."""

    async def work(session: "Session", settings: "Settings") -> tuple[list[Any], dict[str, list[str]], "Settings"]:
        rows = list((await session.execute(statements.list_skills)).all())
        return rows, await find_listed(session), settings

    skills, personas_by_skill, settings = in_transaction(work)
    in_folder, problems = examine_folder(settings)
    names = {skill.name for skill in skills}
    entries = [
        (skill.name, "table", "on" if skill.is_enabled else "off", personas_by_skill.get(skill.name), skill.description)
        for skill in skills
    ]
    for folder_skill in in_folder:
        state = "off" if folder_skill.skill is None else "the row is used" if folder_skill.name in names else "on"
        description = folder_skill.skill.description if folder_skill.skill else ""
        entries.append(
            (folder_skill.name, str(settings.skills_path), state, personas_by_skill.get(folder_skill.name), description)
        )
    missing_skills = sorted(personas_by_skill.keys() - names - {candidate.name for candidate in in_folder})
    problems += [
        f"{name}: listed by {', '.join(personas_by_skill[name])}, but there is no such skill" for name in missing_skills
    ]
    if entries:
        rows = [(*row[:3], ", ".join(row[3] or ()), row[4]) for row in sorted(entries)]
        show_table(("skill", "source", "state", "personas", "description"), rows)
    elif not problems:
        say("There is no skill. Make one: parley skill add FOLDER, or name a folder of skills: SKILLS_PATH")
    for problem in problems:
        complain(problem)
    if problems:
        raise typer.Exit(1)


@app.command("add")
def add_skill(
    path: Path = typer.Argument(exists=True, readable=True, help="A skill's folder, or a SKILL.md alone."),
    replace: bool = typer.Option(False, "--replace", help="Replace the row of this name."),
) -> None:
    """Copy a skill with its files into the table."""
    from agent.tools.skills.folder import INSTRUCTIONS, SkillFolder
    from agent.tools.skills.format import WrongSkill, parse_skill

    path = path.resolve()
    try:
        if path.is_file():
            skill, files = parse_skill(path.read_text("utf-8", errors="replace")), {}
        else:
            folder = SkillFolder(path.parent)
            skill = folder.read(path.name)
            files = {file: folder.read_file(path.name, file) for file in skill.files}
    except (WrongSkill, OSError) as error:
        raise Refusal(f"{path.name or INSTRUCTIONS}: {error}.") from None
    values = {"name": skill.name, "description": skill.description, "body": skill.body, "files": write_json(files)}

    async def work(session: "Session", _settings: "Settings") -> None:
        if replace:
            await session.execute(statements.delete_skill, {"name": skill.name})
        if not (await session.execute(statements.add_skill, values)).all():
            raise Refusal(f"There is a skill {skill.name} already; `--replace` replaces it.")

    in_transaction(work)
    say(f"skill {skill.name}: {len(skill.body):,} characters, {len(files)} files")


@app.command("show")
def show_skill(name: str = typer.Argument(help="The skill's name.")) -> None:
    """Show a skill as the model loads it."""

    async def work(session: "Session", settings: "Settings") -> tuple[Any, dict[str, list[str]], "Settings"]:
        rows = (await session.execute(statements.list_skills)).all()
        row = next((skill for skill in rows if skill.name == name), None)
        return row, await find_listed(session), settings

    row, personas_by_skill, settings = in_transaction(work)
    if row is not None:
        source, description, body, files = "table", row.description, row.body, sorted(row.files)
    else:
        folder_skill = next((candidate for candidate in examine_folder(settings)[0] if candidate.name == name), None)
        if folder_skill is None or folder_skill.skill is None:
            reason = (
                f"{name} can't be used: {'; '.join(folder_skill.problems)}"
                if folder_skill
                else f"There is no skill {name!r}"
            )
            raise Refusal(f"{reason}; `parley skill list` shows all.")
        source, description, body = str(settings.skills_path), folder_skill.skill.description, folder_skill.skill.body
        files = list(folder_skill.skill.files)
    say(f"name:        {name}\ndescription: {description}\nsource:      {source}")
    personas = personas_by_skill.get(name, ())
    say(f"personas:    {', '.join(personas) or 'none lists it'}\nfiles:       {', '.join(files) or 'none'}")
    say(f"\n{body}")


@app.command("remove")
def remove_skill(name: str = typer.Argument(help="The skill's name.")) -> None:
    """Delete a skill from the table."""

    async def work(session: "Session", settings: "Settings") -> list[str]:
        if not (await session.execute(statements.delete_skill, {"name": name})).all():
            if settings.skills_path is not None and (settings.skills_path / name).is_dir():
                raise Refusal(f"{name} is a folder: delete {settings.skills_path / name}.")
            raise Refusal(f"There is no skill {name!r}; `parley skill list` shows them.")
        return (await find_listed(session)).get(name, [])

    personas = in_transaction(work)
    say(f"{name} is removed" + (f"; still listed by {', '.join(personas)}" if personas else ""))


async def find_listed(session: "Session") -> dict[str, list[str]]:
    """Return the names of skills that personas list, each with the names of these personas."""
    return {row.name: list(row.personas) for row in (await session.execute(statements.list_skills_of_personas)).all()}


def examine_folder(settings: "Settings") -> "tuple[list[Examined], list[str]]":
    """Return the skills in `SKILLS_PATH`, and what is wrong with them and with the folder."""
    from agent.tools.skills.folder import SkillFolder
    from agent.tools.skills.format import WrongSkill

    skills: list[Examined] = []
    if settings.skills_path is None:
        return skills, []
    try:
        skills = list(SkillFolder(settings.skills_path).examine())
    except WrongSkill as error:
        return skills, [f"SKILLS_PATH: {error}"]
    return skills, [
        f"{skill.name}{' is off' if skill.skill is None else ''}: {problem}"
        for skill in skills
        for problem in skill.problems
    ]
