"""The registry of commands: every `@command` in the modules of this package."""

import re
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pathlib import Path

from agent.commands.base import Command


@cache
def all_commands() -> tuple[Command, ...]:
    """Return all commands, sorted by name; every module of this package is imported, including new ones."""
    files = sorted(Path(__file__).parent.glob("[a-z]*.py"))
    modules = (import_module(f"agent.commands.{file.stem}") for file in files)
    commands = {
        entry.name: entry for module in modules for entry in vars(module).values() if isinstance(entry, Command)
    }
    return tuple(commands[name] for name in sorted(commands))


def list_commands(platform: str) -> list[Command]:
    """Return the commands of a platform, sorted by name."""
    return [all_command for all_command in all_commands() if all_command.is_known_on(platform)]


def find_command(platform: str, name: str) -> Command | None:
    """Return the command with this name on a platform; None if there is none."""
    return next((command for command in list_commands(platform) if command.name == name), None)


def unknown_command(platform: str, name: str) -> str:
    """Return the reply to an unknown command, which suggests the most similar one."""
    near = get_close_matches(name, [command.name for command in list_commands(platform)], n=1, cutoff=0.5)
    hint = f"did you mean /{near[0]}? " if near else ""
    # Without a sign, as each platform has another.
    return f"There is no command {name[:40]}; {hint}/help lists them all."


def name_commands(platform: str, text: str, sign: str) -> str:
    """Return a text with another sign than / before the commands that it names: `!budget`, or `/parley budget`."""
    names = "|".join(command.name for command in list_commands(platform))
    return re.sub(rf"(?<![\w/])/({names})\b", rf"{sign}\1", text)
