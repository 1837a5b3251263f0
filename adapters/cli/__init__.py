"""The `parley` command, with one file per group of commands, imported when it is used."""

import gc
import sys

import typer

from adapters.cli.clicks import ClickException, completion_init
from adapters.cli.console import end_json, say
from adapters.cli.endings import DONE, flush_output, report_error
from adapters.cli.registry import Registry
from shared import __version__
from shared.errors import ParleyError

# What a command imports is never garbage, and looking at it again and again takes a tenth of its time; the whole
# program makes 180,000 objects.
COLLECT_AFTER = (250_000, 20, 20)

app = typer.Typer(
    name="parley",
    cls=Registry,
    help="Parley: a self-hosted chat agent. `parley run` starts everything that is configured.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        say(f"parley {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Show the version."),
) -> None:
    """Parley: a self-hosted chat agent. `parley run` starts everything that is configured."""


def main() -> None:
    """Run the command line; wrong arguments and settings are reported in one line, without a traceback."""
    gc.set_threshold(*COLLECT_AFTER)
    # What `parley completion` prints asks this program for the words that may follow.
    completion_init()
    try:
        outcome = app(standalone_mode=False, prog_name="parley")
        code = outcome if isinstance(outcome, int) else DONE
    except (ClickException, KeyboardInterrupt, typer.Abort, ParleyError) as error:
        code = report_error(error)
    end_json(code)
    flush_output()
    # The end of the interpreter would visit all that libraries have made, which takes a fifth of a short command.
    gc.freeze()
    sys.exit(code)
