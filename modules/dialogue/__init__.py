"""Tools that end the turn with a result, a question or a message."""

from typing import Annotated, Any

from pydantic import Field

from shared.messages import Permission
from shared.tools import ToolContext, tool

NonEmpty = Annotated[str, Field(min_length=1)]
Option = Annotated[str, Field(min_length=1, max_length=80)]


@tool(requires=Permission.GUEST, read_only=True, ends_turn=True, words=("Finishing", "Finished"))
async def task_completion(_context: ToolContext, result: NonEmpty) -> dict[str, Any]:
    """End with the result of the task, as the person shall read it.

    Example: {"result": "All three files are sorted."} -> All three files are sorted.
    """
    return {"message": result}


@tool(requires=Permission.GUEST, read_only=True, ends_turn=True, words=("Asking you", "Asked you"))
async def ask_question(
    _context: ToolContext, question: NonEmpty, options: Annotated[list[Option], Field(max_length=10)] | None = None
) -> dict[str, Any]:
    """Ask the person and wait for the answer; `options` are answers to choose from.

    Example: {"question": "Which day?", "options": ["Monday", "Friday"]} -> 2. Friday
    """
    if not options:
        return {"message": question}
    lines = [f"{number}. {option}" for number, option in enumerate(options, start=1)]
    return {"message": "\n".join([question, "", *lines]), "options": options}


@tool(requires=Permission.GUEST, read_only=True, ends_turn=True, words=("Answering", "Answered"))
async def converse(_context: ToolContext, message: NonEmpty) -> dict[str, Any]:
    """Say something to the person and end the turn.

    Example: {"message": "Good morning!"} -> Good morning!
    """
    return {"message": message}
