"""The script of the stand-in: Python values, a function, or JSON sent by another process."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

Body = dict[str, Any]
# Name and arguments, a dict or raw text; a third element is the call's id.
ScriptedCall = tuple[str, dict[str, Any] | str] | tuple[str, dict[str, Any] | str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """A model answer. `usage` overrides single fields; `no_usage` leaves it out, as some servers do.

    `reasoning` is thinking beside the text, in the field that DeepSeek and vLLM have for it. A stream ends once `end`
    is set.
    """

    text: str = ""
    tool_calls: Sequence[ScriptedCall] = ()
    delay: float = 0
    finish_reason: str | None = None
    usage: Mapping[str, Any] | None = None
    no_usage: bool = False
    chunk_chars: int = 16
    chunk_delay: float = 0
    reasoning: str = ""
    end: asyncio.Event | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault instead of an answer.

    `hang` never answers; `drop` closes the connection; `malformed` is a 200 with broken JSON; `empty` a 200 without
    content; `cut_after_chunks` ends the stream of `answer` after so many chunks, `is_clean` with a proper end of the
    HTTP body; `status` is for all other errors.
    """

    status: int = 500
    body: Mapping[str, Any] | str | None = None
    retry_after: float | str | None = None
    delay: float = 0
    hang: bool = False
    drop: bool = False
    malformed: bool = False
    empty: bool = False
    cut_after_chunks: int | None = None
    is_clean: bool = False
    answer: Answer = field(default_factory=lambda: Answer("This sentence is never heard to its end, whatever happens."))


@dataclass(frozen=True, slots=True)
class Received:
    """One request as received, answered or refused."""

    number: int
    path: str
    body: Body
    raw: bytes
    headers: Mapping[str, str]
    refusal: str | None = None


Reply = Answer | Fault
ScriptFunction = Callable[[Body, int], Reply | Awaitable[Reply]]
Script = ScriptFunction | Sequence[Reply | str]


def last_user_text(body: Body) -> str:
    for message in reversed(body["messages"]):
        if message["role"] == "user":
            content = message["content"]
            return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)
    return ""


def results_so_far(body: Body) -> int:
    """Return the number of tool results after the last user message."""
    count = 0
    for message in reversed(body["messages"]):
        if message["role"] == "user":
            break
        count += message["role"] == "tool"
    return count


def echo(body: Body, _number: int) -> Reply:
    """Answer as the stand-in does without a script."""
    return Answer(f"You said: {last_user_text(body)}")


def gated_answer(text: str) -> tuple[asyncio.Event, ScriptFunction]:
    """Return an event, and a script that answers with the text once it is set."""
    hold = asyncio.Event()

    async def answer(_body: Body, _number: int) -> Answer:
        await hold.wait()
        return Answer(text)

    return hold, answer


def from_list(entries: Sequence[Reply | str]) -> ScriptFunction:
    """Return a script that plays the entries in order and then echoes."""
    replies = [Answer(entry) if isinstance(entry, str) else entry for entry in entries]
    replies.reverse()
    return lambda body, number: replies.pop() if replies else echo(body, number)


def from_json(entries: Sequence[Any]) -> ScriptFunction:
    """Return the script of a JSON list: text, or an object with the fields of `Answer`, or `{"fault": {…}}`.

    An entry with `"when": {"text"?: part of the last user message, "results"?: tool results after it, "model"?: name}`
    is a rule: rules are tried first and can be used repeatedly, so that a repeated request gets the same answer.
    """
    rules = [(entry["when"], to_reply(entry)) for entry in entries if isinstance(entry, dict) and "when" in entry]
    in_turn = from_list([to_reply(entry) for entry in entries if not (isinstance(entry, dict) and "when" in entry)])

    def answer(body: Body, number: int) -> Reply | Awaitable[Reply]:
        for when, reply in rules:
            if _matches(when, body):
                return reply
        return in_turn(body, number)

    return answer


def to_reply(entry: Any) -> Reply:
    """Return the reply that one JSON entry describes."""
    if isinstance(entry, str):
        return Answer(entry)
    if "fault" in entry:
        arguments = {
            key: value for key, value in entry["fault"].items() if key in {field.name for field in fields(Fault)}
        }
        if "answer" in arguments:
            arguments["answer"] = to_reply(arguments["answer"])
        return Fault(**arguments)
    arguments = {key: value for key, value in entry.items() if key in {field.name for field in fields(Answer)}}
    arguments["tool_calls"] = [_to_call(call) for call in arguments.get("tool_calls", ())]
    return Answer(**arguments)


def arguments_text(call: ScriptedCall) -> str:
    """Return the arguments in their wire format."""
    return call[1] if isinstance(call[1], str) else json.dumps(call[1])


def _to_call(call: Any) -> ScriptedCall:
    if isinstance(call, dict):
        return (call["name"], call.get("arguments", {}))
    return (call[0], call[1])


def _matches(when: Mapping[str, Any], body: Body) -> bool:
    return (
        when.get("text", "") in last_user_text(body)
        and when.get("results", results_so_far(body)) == results_so_far(body)
        and when.get("model", body["model"]) == body["model"]
    )
