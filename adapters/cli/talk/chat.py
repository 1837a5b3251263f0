"""`parley chat`: a conversation in the terminal, with or without a Parley that runs already."""

import asyncio
import signal
import sys
from shutil import get_terminal_size
from textwrap import fill
from typing import TYPE_CHECKING

import typer

from adapters.cli.models import describe_models, describe_remedy, is_offline
from adapters.cli.opening import cancel_on, find_database, read_settings
from adapters.cli.talk.ask import MODEL, PERSONA, Question, read_text, run
from shared import __version__
from shared.text import harmless

if TYPE_CHECKING:
    from adapters.terminal.output import Output
    from adapters.terminal.reading import Reader
    from shared.db.database import Address
    from shared.settings import Settings

app = typer.Typer()


@app.command("chat")
def chat(
    words: list[str] | None = typer.Argument(
        None, metavar="QUESTION", help="Only ask this, as `parley ask` does, and end."
    ),
    model: str | None = MODEL,
    persona: str | None = PERSONA,
) -> None:
    """Talk with the agent here; a pipe works too: one message per line in, plain answers out."""
    if words:
        run(Question(read_text(words), model=model, persona=persona))
        return
    settings = read_settings(quiet=True)
    try:
        has_failed = asyncio.run(_talk(settings, find_database(settings), model=model, persona=persona))
    except asyncio.CancelledError:
        # After a signal everything is closed in order, including the embedded database.
        raise typer.Exit(128 + signal.SIGTERM) from None
    if has_failed and not sys.stdin.isatty():
        # Three: what was needed did not answer.
        raise typer.Exit(3)


async def _talk(settings: "Settings", address: "Address", *, model: str | None, persona: str | None) -> bool:
    """Talk until the input ends; return whether a turn has failed."""
    # Imported here, as what follows: with a question behind it the command does as `parley ask`.
    from adapters.cli.owner import make_owner
    from adapters.cli.talk.choices import to_request
    from adapters.cli.talk.opening import opened_client
    from adapters.cli.watchdog import watched
    from adapters.terminal.chat import Chat

    cancel_on(signal.SIGTERM, signal.SIGHUP)
    async with opened_client(settings, address, model=model) as (client, worker):
        async with client.database.statement() as session:
            user = await make_owner(session)
        is_at_keyboard = sys.stdin.isatty() and sys.stdout.isatty()
        output = _to_output(settings, is_at_keyboard=is_at_keyboard)
        if is_at_keyboard:
            _introduce(settings, f"{user.name} ({user.permission})", model)
        reader = _to_reader(settings, is_at_keyboard=is_at_keyboard)
        request = await to_request(client, worker, model=model, persona=persona)
        with watched():
            conversation = Chat(client, reader, output, before_sending=worker.ensure_worker, request=request)
            await conversation.run()
            return conversation.has_failed


def _to_output(settings: "Settings", *, is_at_keyboard: bool) -> "Output":
    if not is_at_keyboard:
        from adapters.terminal.output import PlainOutput

        return PlainOutput()
    # Imported here: nothing is drawn into a pipe.
    from adapters.cli.talk.opening import words_finder
    from adapters.terminal.live import LiveOutput

    return LiveOutput(find_words=words_finder(settings))


def _to_reader(settings: "Settings", *, is_at_keyboard: bool) -> "Reader":
    """Return the input that is read; either kind begins to read at once."""
    from adapters.terminal.reading import PersonAtKeyboard, PipedLines

    if not is_at_keyboard:
        return PipedLines()
    return PersonAtKeyboard(settings.parley_home / "chat_history", _list_beginnings)


def _list_beginnings() -> list[str]:
    # Imported with the first completion: the commands bring the whole program.
    from agent.commands import list_commands

    return [*(word for command in list_commands("terminal") for word in command.beginnings), "/attach"]


def _introduce(settings: "Settings", who: str, model: str | None) -> None:
    """Write what stands above a conversation at the keyboard, dim where the terminal can."""
    # Imported here: with a question behind it the command has no prompt.
    from prompt_toolkit.utils import is_dumb_terminal

    columns, is_dim = get_terminal_size().columns, not is_dumb_terminal()
    for line in (
        f"Parley {__version__}. You are {who}.",
        f"Answers come from {model or describe_models(settings)}.",
        *([describe_remedy()] if is_offline(settings) and model is None else []),
        "/help lists the commands. Alt+Enter: new line. Ctrl+C: stop an answer. Ctrl+D: leave.",
    ):
        typer.secho(fill(harmless(line), columns, break_on_hyphens=False), dim=is_dim)
    typer.echo()
