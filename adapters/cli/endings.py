"""How a command ends: its exit code, and the sentence for an error."""

import os
import sys

import typer

from adapters.cli.clicks import ClickException, NoArgsIsHelpError, UsageError
from adapters.cli.console import complain
from shared.errors import ConfigurationError, ParleyError, Unavailable

# docs/reference/commands.md has the table.
DONE, REFUSED, WRONG, UNANSWERED, INTERRUPTED = 0, 1, 2, 3, 130


def report_error(error: BaseException) -> int:
    """Tell the error that has ended a command, in one line; return its exit code."""
    match error:
        case typer.Exit():
            return int(error.exit_code)
        case NoArgsIsHelpError():
            error.show()
            return WRONG
        case UsageError():
            where = error.ctx.command_path if error.ctx else "parley"
            reason = error.format_message().rstrip(".")
            complain(f"{reason}{'' if reason.endswith('?') else '.'} See `{where} --help`.")
            return WRONG
        case ClickException():
            complain(error.format_message())
            return error.exit_code
        case KeyboardInterrupt() | typer.Abort():
            return INTERRUPTED
        case ConfigurationError():
            complain(str(error))
            return WRONG
        case ParleyError():
            complain(str(error))
            return UNANSWERED if isinstance(error, Unavailable) else REFUSED
        case _:
            # The hook of the log writes it with its traceback.
            sys.excepthook(type(error), error, error.__traceback__)
            return REFUSED


def flush_output() -> None:
    """Write what is left for stdout and stderr; where nobody reads it any more, that is no error of the command."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            # The end of the interpreter writes what is left once more, and would end with a code of its own.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
