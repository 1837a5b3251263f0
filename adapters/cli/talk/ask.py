"""`parley ask`: one question, one answer, and the end."""

import asyncio
import re
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from adapters.cli.console import complain, is_json, progress, show_json
from adapters.cli.endings import DONE, INTERRUPTED, REFUSED
from adapters.cli.opening import cancel_on, find_database, kept_up, prepare, read_settings, silence_log
from shared.errors import Refusal

if TYPE_CHECKING:
    from adapters.terminal import Exchange, Output
    from agent.app import App
    from shared.db.database import Address
    from shared.messages import AgentResponse, ProgramRequest
    from shared.settings import Settings

app = typer.Typer()

# As over the HTTP API.
MOST_CHARS = 100_000
FENCE = re.compile(r"`{3,}")

MODEL = typer.Option(None, "-m", "--model", metavar="NAME", help="Ask this model first, a litellm name.")
PERSONA = typer.Option(None, "--persona", metavar="NAME", help="Let this persona answer.")


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and of whom."""

    text: str
    files: tuple[Path, ...] = ()
    model: str | None = None
    persona: str | None = None
    is_continued: bool = False


@app.command("ask")
def ask(
    words: list[str] | None = typer.Argument(
        None, metavar="QUESTION", help="The question; what comes through a pipe stands below it, as data."
    ),
    model: str | None = MODEL,
    persona: str | None = PERSONA,
    is_continued: bool = typer.Option(False, "-c", "--continue", help="Go on with the last conversation."),
    files: list[Path] | None = typer.Option(None, "-f", "--file", metavar="PATH", help="Send a file along."),
) -> None:
    """Ask one question and print the answer; a pipe's input is one question, or the data of one."""
    run(Question(read_text(words or []), tuple(files or ()), model=model, persona=persona, is_continued=is_continued))


def run(question: Question) -> None:
    """Ask, and end with the exit code that tells what became of it."""
    settings = read_settings(quiet=True)
    silence_log(settings)
    with progress("starting"):
        from adapters import terminal  # noqa: F401  # the slow imports, while something is shown
    try:
        code = asyncio.run(_open_and_ask(settings, find_database(settings), question))
    except asyncio.CancelledError:
        # After a signal everything is closed in order, including the embedded database.
        raise typer.Exit(128 + signal.SIGTERM) from None
    if code != DONE:
        raise typer.Exit(code)


def read_text(words: list[str]) -> str:
    """Return the question with what comes through a pipe; raises `Refusal` if there is none."""
    question, data = " ".join(words).strip(), ""
    if not sys.stdin.isatty():
        data = sys.stdin.buffer.read(MOST_CHARS * 4 + 1).decode("utf-8", errors="replace").strip("\n")
    if "\x00" in data or len(question) + len(data) > MOST_CHARS:
        raise Refusal(f"The input is no text of at most {MOST_CHARS:,} characters; give it as a file: --file PATH.")
    if not question and not data.strip():
        raise typer.BadParameter('write the question behind it: parley ask "What is …?"', param_hint="QUESTION")
    if not question or not data.strip():
        return question or data
    # In a fence it counts as a paste: what stands in it is not what the person has said.
    fence = "`" * max([3, *(len(match[0]) + 1 for match in FENCE.finditer(data))])
    return f"{question}\n\n{fence}\n{data}\n{fence}"


async def _open_and_ask(settings: "Settings", address: "Address", question: Question) -> int:
    """Ask in an app of its own; return the exit code."""
    from adapters.cli.compose import open_app
    from adapters.cli.neighbours import joined
    from adapters.cli.owner import resolve_terminal_user

    cancel_on(signal.SIGTERM, signal.SIGHUP)
    async with (
        kept_up(settings, address),
        open_app(settings, await prepare(settings, address)) as running_app,
        joined(running_app),
    ):
        await resolve_terminal_user(running_app)
        return await _answer(running_app, question)


async def _answer(running_app: "App", question: Question) -> int:
    from adapters.cli.talk.choices import find_place, to_request
    from adapters.cli.talk.local_worker import LocalWorker
    from adapters.terminal import Exchange, LiveOutput, OneAnswer, find_file, terminal_sender
    from agent import commands

    sender = terminal_sender()
    files = [find_file(str(path), running_app.settings.max_body_mb) for path in question.files]
    request = await to_request(running_app, question.model, question.persona)
    place = await find_place(running_app, sender, is_continued=question.is_continued)
    is_live = sys.stdout.isatty() and not is_json()
    words = {tool.name: tool.words for tool in running_app.toolbox.tools}
    output: Output = LiveOutput(words=words, is_conversation=False) if is_live else OneAnswer(is_silent=is_json())
    if (reply := await commands.answer(running_app, sender, place, text=question.text)) is not None:
        show_json({"content": reply.text}) if is_json() else output.write(reply.text)
        return DONE
    worker = LocalWorker(running_app)

    async def ensure_answer() -> None:
        await worker.ensure_worker()
        if worker.is_running:
            # Before the turn begins, whose deadline runs while the models' library is imported.
            await running_app.models.router.warm(*filter(None, (question.model,)))
        # From here on Ctrl+C ends the turn, too, which costs tokens.
        loop.add_signal_handler(signal.SIGINT, exchange.interrupt)

    exchange = Exchange(running_app, output, ensure_answer, sender=sender, place=place)
    loop = asyncio.get_running_loop()
    try:
        inbox_id = await exchange.send(question.text, files, request=request)
        response = await _decide(running_app, exchange, inbox_id, request=request)
        return await _conclude(running_app, question, response)
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        await worker.close()


async def _decide(
    running_app: "App", exchange: "Exchange", inbox_id: int, *, request: "ProgramRequest | None"
) -> "AgentResponse | None":
    """Return the response, once a person at the keyboard has said yes or no to what it asks."""
    from adapters.terminal import ask_for_yes
    from agent.journal.responses import find_response
    from shared.messages import Decision

    is_at_keyboard = sys.stdin.isatty() and sys.stdout.isatty() and not is_json()
    while True:
        async with running_app.database.transaction() as session:
            response = await find_response(session, inbox_id)
        if response is None or response.confirmation is None or not is_at_keyboard:
            return response
        decision = Decision(response.confirmation.id, approved=await ask_for_yes())
        inbox_id = await exchange.send("", decision=decision, request=request)


async def _conclude(running_app: "App", question: Question, response: "AgentResponse | None") -> int:
    """Say what is to be said behind the answer; return the exit code."""
    from agent.turn.confirmations.rows import close_questions
    from shared.errors import Stopped

    if response is None:
        # Who asked has pressed Ctrl+C twice.
        return INTERRUPTED
    if is_json():
        fields = asdict(response)
        show_json(
            fields if response.confirmation else {name: fields[name] for name in fields if name != "confirmation"}
        )
    if response.confirmation is not None and response.conversation_id is not None:
        async with running_app.database.transaction() as session:
            await close_questions(session, response.conversation_id)
        complain("this needs a yes, which only a terminal can give: nothing of it was done")
        return REFUSED
    if response.error == Stopped.code:
        return INTERRUPTED
    is_other = question.model and response.model and response.model != question.model
    if is_other and running_app.settings.debug_mock_responses is None:
        complain(f"{question.model} has not answered; {response.model} has")
    return REFUSED if response.error else DONE
