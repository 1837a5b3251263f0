"""A tool call before it runs: its scope, the turn that makes it, and its arguments, read, checked and shown later."""

import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from enum import Flag, auto
from math import isfinite
from typing import Any

from msgspec import Struct

from agent.journal.steps import Step, TurnKey
from agent.people.participants import ResolvedConversation, ResolvedUser
from agent.tools.offer import Offer, Scope
from shared.errors import ToolError
from shared.messages import Author, IncomingMessage
from shared.text import MAX_DEPTH, clean, clean_json
from shared.tools import GARBLED, Tool

MAX_ARGUMENT_CHARS = 1_000_000
PROBLEM = "problem"
GARBLED_CHARS = 2000
SHOWN_CHARS = 32_000
NO_JSON = "The arguments are not valid JSON."
NO_OBJECT = f"The arguments must be a JSON object, nested at most {MAX_DEPTH} deep."
TOO_LARGE = f"The arguments are larger than {MAX_ARGUMENT_CHARS:,} characters."


class PendingCall(Struct, frozen=True):
    """A call that has not run yet; `id` is the same in every attempt at its turn.

    `confirmation` is set for a call that the user was asked about, as in `ToolUse`. `agreed_to` is what the approved
    question says of this call, set once the approval has been consumed. `author` says who may have written
    the arguments: a stranger, when the model had read a stranger's text and the asker did not say them. The question
    of a tool that asks itself shows them, too, if `shows_arguments`.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    scope: Scope
    offer: Offer
    seq: int = 0
    confirmation: dict[str, Any] | None = None
    agreed_to: str | None = None
    author: Author = "person"
    shows_arguments: bool = False

    @property
    def tool(self) -> Tool | None:
        """Return the offered tool with this name, None when there is none."""
        return self.offer.find(self.name)


def to_pending(step: Step, scope: Scope, offer: Offer) -> PendingCall:
    """Convert a recorded call to a pending one."""
    return PendingCall(
        id=step.tool.call_id,
        name=step.tool.name,
        arguments=step.value,
        scope=scope,
        offer=offer,
        seq=step.seq,
        confirmation=step.tool.confirmation,
    )


class Taint(Flag):
    """Which risky content a prompt holds: text that somebody other than the user wrote, and private data."""

    NONE = 0
    UNTRUSTED = auto()
    PRIVATE = auto()
    WHOLE = UNTRUSTED | PRIVATE


class CallingTurn(Struct, frozen=True):
    """The parts of the calling turn that tool providers may use.

    `deadline` is in seconds on the monotonic clock. `numbers` yields the positions of model calls in a scripted
    conversation, None when they are not numbered. `find_taint` computes the taint of the turn's prompt; `list_said`
    returns what the person has typed.
    """

    key: TurnKey
    message: IncomingMessage
    user: ResolvedUser
    conversation: ResolvedConversation
    scope: Scope
    deadline: float
    numbers: Iterator[int] | None
    find_taint: Callable[[], Awaitable[Taint]]
    list_said: Callable[[], Sequence[str]]


def parse_arguments(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """Check the arguments against the tool's schema; raises `ToolError` with the schema in its fields."""
    if GARBLED in arguments:
        raise _wrong(tool, str(arguments.get(PROBLEM, NO_JSON)))
    try:
        return tool.check(arguments)
    except ToolError as error:
        raise _wrong(tool, str(error), **error.fields) from None


def read_arguments(text: str) -> dict[str, Any]:
    """Parse and clean the arguments that a model wrote, in the form the journal stores.

    Text that is not a valid JSON object becomes an object that holds the text and a description of the problem.
    """
    problem = TOO_LARGE
    if len(text) <= MAX_ARGUMENT_CHARS:
        problem = NO_OBJECT
        try:
            plain = DECODER.decode(clean(text).strip() or "{}")
            if isinstance(plain, dict) and depth(plain) <= MAX_DEPTH:
                arguments: dict[str, Any] = clean_json(plain)
                return arguments
        except ValueError:
            problem = NO_JSON
        except RecursionError:
            # It is nested too deep to be read.
            pass
    return {GARBLED: clean(text[:GARBLED_CHARS]), PROBLEM: problem}


def _finite(text: str) -> float:
    # JSON in Postgres cannot hold infinity or NaN, however they are written.
    number = float(text)
    if not isfinite(number):
        raise ValueError(text)
    return number


DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_finite)


def to_shown_arguments(content: str) -> str:
    """Return journaled arguments for the prompt; those over `SHOWN_CHARS` characters are cut to their beginning."""
    if len(content) <= SHOWN_CHARS:
        return content
    return json.dumps({"cut": True, "total_chars": len(content), "beginning": content[:GARBLED_CHARS]})


def depth(value: Any) -> int:
    """Return the nesting depth of a JSON value; does not recurse, so that deep values cannot overflow the stack."""
    deepest = 0
    level = [value]
    while level:
        deepest += 1
        collections = (node for node in level if isinstance(node, dict | list))
        level = [inner for node in collections for inner in (node.values() if isinstance(node, dict) else node)]
    return deepest


def _wrong(tool: Tool, message: str, **fields: Any) -> ToolError:
    error = ToolError(message)
    error.fields = {**fields, "parameters": tool.schema["function"]["parameters"]}
    return error
