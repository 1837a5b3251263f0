"""`parley chat`: a conversation in the terminal, with or without a Parley that runs already."""

import asyncio
import signal
import sys
from typing import TYPE_CHECKING

import typer

from adapters.cli.console import progress
from adapters.cli.models import describe_models, describe_remedy, is_offline
from adapters.cli.opening import cancel_on, find_database, kept_up, prepare, read_settings
from adapters.cli.talk.ask import MODEL, PERSONA, Question, read_text, run
from shared import __version__

if TYPE_CHECKING:
    from adapters.terminal import Output, PersonAtKeyboard, Reader
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
    with progress("starting"):
        from adapters import terminal  # noqa: F401  # the slow imports, while something is shown
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
    from adapters.cli.compose import open_app
    from adapters.cli.neighbours import joined
    from adapters.cli.owner import resolve_terminal_user
    from adapters.cli.talk.choices import to_request
    from adapters.cli.talk.local_worker import LocalWorker
    from adapters.cli.watchdog import watched
    from adapters.terminal import Chat, LiveOutput, PipedLines, PlainOutput

    cancel_on(signal.SIGTERM, signal.SIGHUP)
    async with (
        kept_up(settings, address),
        open_app(settings, await prepare(settings, address)) as running_app,
        joined(running_app),
    ):
        user = await resolve_terminal_user(running_app)
        is_at_keyboard = sys.stdin.isatty() and sys.stdout.isatty()
        words = {tool.name: tool.words for tool in running_app.toolbox.tools}
        output: Output = LiveOutput(words=words) if is_at_keyboard else PlainOutput()
        if is_at_keyboard:
            who = f"{user.name} ({user.permission.label})"
            for line in _introduce(running_app.settings, who, model):
                output.note(line)
        # Made for the input that is read alone: each begins to read at once.
        reader: Reader = _to_keyboard(running_app.settings) if is_at_keyboard else PipedLines()
        request = await to_request(running_app, model, persona)
        worker = LocalWorker(running_app)
        warming = asyncio.create_task(running_app.models.router.warm(*filter(None, (model,))), name="warm")
        try:
            with watched():
                conversation = Chat(running_app, reader, output, before_sending=worker.ensure_worker, request=request)
                await conversation.run()
                return conversation.has_failed
        finally:
            warming.cancel()
            await worker.close()
            await asyncio.gather(warming, return_exceptions=True)


def _to_keyboard(settings: "Settings") -> "PersonAtKeyboard":
    from adapters.terminal import PersonAtKeyboard
    from agent.commands import list_commands

    words = [*(word for command in list_commands("terminal") for word in command.beginnings), "/attach"]
    return PersonAtKeyboard(settings.parley_home / "chat_history", words)


def _introduce(settings: "Settings", who: str, model: str | None) -> list[str]:
    """Return what stands above a conversation at the keyboard."""
    return [
        f"Parley {__version__}. You are {who}.",
        f"Answers come from {model or describe_models(settings)}.",
        *([describe_remedy()] if is_offline(settings) and model is None else []),
        "/help lists the commands. Alt+Enter: new line. Ctrl+C: stop an answer. Ctrl+D: leave.\n",
    ]
