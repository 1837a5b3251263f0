"""What the registry needs of typer's own copy of click, which has no public name: here alone.

typer's minor release is held, and whatever a release lacks stops every command at its first line.
"""

from typer._click import Command, Context, Parameter
from typer._click.exceptions import ClickException, NoArgsIsHelpError, UsageError
from typer._completion_classes import completion_init
from typer._completion_shared import get_completion_script

__all__ = [
    "ClickException",
    "Command",
    "Context",
    "NoArgsIsHelpError",
    "Parameter",
    "UsageError",
    "completion_init",
    "get_completion_script",
]
