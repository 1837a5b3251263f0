"""The `parley` command, with one file per group of commands.

Only typer is imported here: each command imports what it needs when it runs, so that `parley --help` is fast.
"""

import sys
from importlib import import_module

import typer

# typer has its own copy of click, whose errors have no public name.
from typer._click.exceptions import ClickException, NoArgsIsHelpError, UsageError

from adapters.cli import (
    audit,
    chat,
    database,
    doctor,
    explain,
    mcp,
    persona_versions,
    personas,
    receipts,
    run,
    skills,
    tools,
    users,
)
from adapters.cli.console import complain, find_version, say
from adapters.folders import list_folders
from shared.errors import ConfigurationError, ParleyError

app = typer.Typer(
    name="parley",
    help="Parley: a self-hosted chat agent. `parley run` starts everything that is configured.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for commands in (run.app, chat.app, database.app, doctor.app, tools.app, explain.app, mcp.app, receipts.app):
    app.add_typer(commands)
app.add_typer(users.app, name="user")
personas.app.add_typer(persona_versions.app)
app.add_typer(personas.app, name="persona")
app.add_typer(audit.app, name="audit")
app.add_typer(skills.app, name="skill")
for name, folder in list_folders().items():
    # The commands of the platforms.
    if (folder / "cli.py").is_file():
        app.add_typer(import_module(f"adapters.{name}.cli").app, name=name)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        say(f"parley {find_version()}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Show the version."),
) -> None:
    """Parley: a self-hosted chat agent. `parley run` starts everything that is configured."""


def main() -> None:
    """Run the command line; wrong arguments and settings are reported in one line, without a traceback."""
    try:
        code = app(standalone_mode=False)
    except NoArgsIsHelpError as error:
        error.show()
        code = 2
    except UsageError as error:
        where = error.ctx.command_path if error.ctx else "parley"
        complain(f"{error.format_message().rstrip('.')}. See `{where} --help`.")
        code = 2
    except ClickException as error:
        complain(error.format_message())
        code = error.exit_code
    except ConfigurationError as error:
        complain(str(error))
        code = 2
    except ParleyError as error:
        complain(str(error))
        code = 1
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    sys.exit(code if isinstance(code, int) else 0)
