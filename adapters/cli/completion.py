"""`parley completion`: what a shell needs to complete our commands."""

from enum import StrEnum

import typer

from adapters.cli.clicks import get_completion_script
from adapters.cli.console import say

app = typer.Typer()


class Shell(StrEnum):
    """The shells that can complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@app.command("completion")
def complete(shell: Shell = typer.Argument(help="The shell.")) -> None:
    """Print the shell's completion of commands and options; docs/reference/commands.md says where to put it."""
    say(get_completion_script(prog_name="parley", complete_var="_PARLEY_COMPLETE", shell=shell.value))
