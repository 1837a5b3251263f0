"""`parley ask`: one question, one answer, and the end."""

import asyncio
import re
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from msgspec import Struct

from adapters.cli.console import complain, is_json, show_json
from adapters.cli.endings import DONE, INTERRUPTED, REFUSED
from adapters.cli.opening import cancel_on, find_database, read_settings, silence_log
from shared.errors import Refusal
from shared.text import to_command_line

if TYPE_CHECKING:
    from adapters.cli.talk.local_worker import LocalWorker
    from adapters.terminal.client import Client
    from adapters.terminal.exchange import Exchange
    from adapters.terminal.output import Output
    from shared.db.database import Address
    from shared.messages import AgentResponse, ProgramRequest
    from shared.settings import Settings

app = typer.Typer()

# As over the HTTP API.
MOST_CHARS = 100_000
FENCE = re.compile(r"`{3,}")

MODEL = typer.Option(None, "-m", "--model", metavar="NAME", help="Ask this model first, a litellm name.")
PERSONA = typer.Option(None, "--persona", metavar="NAME", help="Let this persona answer.")


class Question(Struct, frozen=True):
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
    if to_command_line(question) is not None:
        # Imported here, as below.
        from agent import commands

        if commands.match_command(question) is not None:
            # So that no credential stands in the shell's history.
            return f"{question} {data}"
    # In a fence it counts as a paste: what stands in it is not what the person has said.
    fence = "`" * max([3, *(len(match[0]) + 1 for match in FENCE.finditer(data))])
    return f"{question}\n\n{fence}\n{data}\n{fence}"


async def _open_and_ask(settings: "Settings", address: "Address", question: Question) -> int:
    """Ask by a client of its own; return the exit code."""
    # Imported here, as what follows: `parley ask --help` needs none of it.
    from adapters.cli.owner import make_owner
    from adapters.cli.talk.opening import opened_client

    cancel_on(signal.SIGTERM, signal.SIGHUP)
    async with opened_client(settings, address, model=question.model) as (client, worker):
        async with client.database.statement() as session:
            await make_owner(session)
        return await _answer(client, worker, question)


async def _answer(client: "Client", worker: "LocalWorker", question: Question) -> int:
    from adapters.cli.talk.choices import find_place, to_request
    from adapters.terminal.exchange import Exchange
    from adapters.terminal.files import find_file
    from adapters.terminal.person import terminal_sender

    sender = terminal_sender()
    files = [find_file(str(path), client.settings.max_body_mb) for path in question.files]
    request = await to_request(client, worker, model=question.model, persona=question.persona)
    place = await find_place(client, sender, is_continued=question.is_continued)
    output = _to_output(client.settings)
    if to_command_line(question.text) is not None:
        # Imported here, as the whole program is opened here: most questions are no commands.
        from agent import commands

        reply = await commands.answer(await client.open_app(), sender, place, text=question.text)
        if reply is not None:
            show_json({"content": reply.text}) if is_json() else output.write(reply.text)
            return DONE

    async def ensure_answer() -> None:
        await worker.ensure_worker()
        await worker.warm()
        # From here on Ctrl+C ends the turn, too, which costs tokens.
        loop.add_signal_handler(signal.SIGINT, exchange.interrupt)

    exchange = Exchange(client, output, ensure_answer, sender=sender, place=place)
    loop = asyncio.get_running_loop()
    try:
        inbox_id = await exchange.send(question.text, files, request=request)
        response = await _decide(client, exchange, inbox_id, request=request)
        return await _conclude(client, question, response)
    finally:
        loop.remove_signal_handler(signal.SIGINT)


def _to_output(settings: "Settings") -> "Output":
    if is_json() or not sys.stdout.isatty():
        from adapters.terminal.output import OneAnswer

        return OneAnswer(is_silent=is_json())
    # Imported here: nothing is drawn into a pipe.
    from adapters.cli.talk.opening import words_finder
    from adapters.terminal.live import LiveOutput

    return LiveOutput(find_words=words_finder(settings), is_conversation=False)


async def _decide(
    client: "Client", exchange: "Exchange", inbox_id: int, *, request: "ProgramRequest | None"
) -> "AgentResponse | None":
    """Return the response, once a person at the keyboard has said yes or no to what it asks."""
    from adapters.terminal.reading import ask_for_yes
    from agent.journal.responses import find_response
    from shared.messages import Decision

    is_at_keyboard = sys.stdin.isatty() and sys.stdout.isatty() and not is_json()
    while True:
        async with client.database.statement() as session:
            response = await find_response(session, inbox_id)
        if response is None or response.confirmation is None or not is_at_keyboard:
            return response
        decision = Decision(response.confirmation.id, approved=await ask_for_yes())
        inbox_id = await exchange.send("", decision=decision, request=request)


async def _conclude(client: "Client", question: Question, response: "AgentResponse | None") -> int:
    """Say what is to be said behind the answer; return the exit code."""
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
        from agent.turn.confirmations.rows import close_questions

        async with client.database.statement() as session:
            await close_questions(session, response.conversation_id)
        complain("this needs a yes, which only a terminal can give: nothing of it was done")
        return REFUSED
    if response.error == Stopped.code:
        return INTERRUPTED
    is_other = question.model and response.model and response.model != question.model
    if is_other and client.settings.debug_mock_responses is None:
        complain(f"{question.model} has not answered; {response.model} has")
    return REFUSED if response.error else DONE
