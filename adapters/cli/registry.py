"""The commands by name: the file of a command is imported only when the command is used.

So each file may import at its top what its commands need, and `parley --help` imports none of them.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from adapters.cli.clicks import Command, Context, Parameter
from adapters.cli.console import answer_in_json
from adapters.folders import list_folders

# The file of each command with one line of help.
COMMANDS: Mapping[str, tuple[str, str]] = {
    "run": ("run", "Start everything that is configured."),
    "worker": ("run", "Run one more worker."),
    "adapter": ("run", "Run one adapter only."),
    "link": ("run", "Print a link that opens the chat page once, within ten minutes."),
    "chat": ("talk.chat", "Talk with the agent here."),
    "ask": ("talk.ask", "Ask one question and print the answer."),
    "migrate": ("database", "Bring the tables to the newest revision."),
    "psql": ("database", "Open psql on Parley's database."),
    "dump": ("database", "Write the whole database into a file."),
    "backup": ("backup", "Write database, files and secrets into one archive."),
    "restore": ("backup", "Restore a backup into a new PARLEY_HOME."),
    "setup": ("setup.wizard", "Ask for model, platforms, owners, budget and database."),
    "doctor": ("doctor", "Check that everything is in order."),
    "version": ("version", "Show the versions of Parley, Python, Postgres and pgvector."),
    "tools": ("tools", "List the tools of modules and MCP servers."),
    "explain": ("explain", "Tell all about a turn."),
    "mcp": ("mcp", "Serve the modules as an MCP server."),
    "export": ("manifests", "Write the switched modules, MCP servers, personas, agents and budgets that are there."),
    "apply": ("manifests", "Make rows what manifests say."),
    "operator": ("manifests", "Make rows what resources in a cluster say."),
    "verify-receipt": ("receipts", "Check the signature of an erasure's receipt."),
    "completion": ("completion", "Print the shell's completion of commands and options."),
}
GROUPS: Mapping[str, tuple[str, str]] = {
    "user": ("users", "People, with permission, budget and accounts."),
    "grant": ("grants", "Who may more than a guest."),
    "budget": ("budgets", "What people may spend."),
    "persona": ("personas", "Which persona answers in which place."),
    "token": ("tokens", "Tokens for the API that speak for one person."),
    "audit": ("audit", "What admins have changed."),
    "server": ("cells", "Cells, and which server lives in which."),
    "skill": ("skills", "The skills in the folder and in the table."),
}
# They speak with a person or another program in a way of their own.
WITHOUT_JSON = frozenset({"run", "worker", "adapter", "chat", "psql", "mcp", "setup", "completion", "operator"})


class Registry(TyperGroup):
    """The group of all commands."""

    def list_commands(self, ctx: Context) -> list[str]:
        """Return the names, groups last."""
        return [*COMMANDS, *GROUPS, *_list_platforms()]

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        """Return what help and completion need of a command, its name and its line of help."""
        entry = COMMANDS.get(cmd_name) or GROUPS.get(cmd_name) or _list_platforms().get(cmd_name)
        return TyperCommand(name=cmd_name, help=entry[1]) if entry else None

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        """Return the command that is named, imported."""
        # What a mistyped name is compared with.
        self.commands = {name: command for name in self.list_commands(ctx) if (command := self.get_command(ctx, name))}
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and load(args[0]), rest


def load(name: str) -> Command:
    """Import the file of a command and return the command."""
    if name in COMMANDS:
        command = get_group(import_module(f"adapters.cli.{COMMANDS[name][0]}").app).commands[name]
    else:
        file = f"adapters.cli.{GROUPS[name][0]}" if name in GROUPS else _list_platforms()[name][0]
        command = get_group(import_module(file).app)
        command.name = name
    _add_json(command)
    return command


def _list_platforms() -> dict[str, tuple[str, str]]:
    """Return the platforms that have commands of their own."""
    with_commands = [name for name, folder in list_folders().items() if (folder / "cli.py").is_file()]
    return {name: (f"adapters.{name}.cli", f"What only {name} needs.") for name in with_commands}


def _add_json(command: Command) -> None:
    """Give a command, or all of a group, the option `--json`."""
    if isinstance(command, TyperGroup):
        for subcommand in command.commands.values():
            _add_json(subcommand)
    elif command.name not in WITHOUT_JSON:
        command.params.append(_json_option())


@cache
def _json_option() -> Parameter:
    # From a command of its own: typer makes options from functions alone.
    only = typer.Typer(add_completion=False)

    @only.command()
    def _take(
        is_json: bool = typer.Option(
            False, "--json", help="Answer in JSON, for programs.", is_eager=True, callback=_turn_on
        ),
    ) -> None:
        """Nothing is done."""

    option = get_command(only).params[0]
    option.expose_value = False
    return option


def _turn_on(is_json: bool) -> None:
    if is_json:
        answer_in_json()
