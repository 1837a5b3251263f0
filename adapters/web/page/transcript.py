"""A chat as the page shows it: from the transcript, which stays, as the events from which the page draws a turn."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from agent.app import App
from agent.journal.files import FILES_HEADING
from agent.journal.responses import to_call_step
from agent.tools.offer import DELEGATE
from agent.tools.outcomes import list_file_ids
from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.messages import find_command_label

statements = load_statements(__file__)

SHOWN_TURNS = 30
# A page of turns ends before it would become larger; its first turn may be.
MAX_PAGE_CHARS = 600_000
ATTACHED = re.compile(r"^- .+ \(file_id (\d{1,18}), ", re.MULTILINE)


class Shown(Struct, frozen=True):
    """One step of a turn, as the query selects it."""

    seq: int
    role: str
    content: str
    tool_call_id: str | None
    tool_name: str | None
    outcome: str | None
    is_plan: bool


async def read_turns(session: Session, app: App, channel: str, *, who: str, before: int) -> dict[str, Any]:
    """Return the newest turns of a chat before one, oldest first, and what commands have answered between them."""
    parameters = {"channel": channel, "before": before, "limit": SHOWN_TURNS + 1}
    rows = (await session.execute(statements.list_turns, parameters)).all()
    turns: list[tuple[Any, list[Shown]]] = []
    chars = 0
    for row in rows[:SHOWN_TURNS]:
        chars += sum(len(step[2]) for step in row.steps or ())
        if turns and chars > MAX_PAGE_CHARS:
            break
        turns.append((row, [Shown(*step) for step in row.steps or ()]))
    has_more = len(turns) < len(rows)
    first = turns[-1][0].id if has_more else 0
    branches = await list_branches(session, [row for row, _ in turns])
    below = {"channel": channel, "first": first, "before": before}
    reply_rows = (await session.execute(statements.list_replies, below)).all()
    files = await read_files(
        session, app, who, ids={file_id for _, steps in turns for file_id in list_named_files(steps)}
    )
    return {
        "turns": [
            to_turn(app, row, steps, files=files) | {"branch": branches.get(row.id)} for row, steps in reversed(turns)
        ],
        "replies": await to_replies(session, app, who, rows=reply_rows),
        "has_more": has_more,
    }


async def list_branches(session: Session, rows: Sequence[Any]) -> dict[int, dict[str, Any]]:
    """Return which of how many each of these turns of a chat is that others stand in place of, with its neighbours."""
    if not rows or not rows[0].has_branches:
        return {}
    parameters = {"conversation_id": rows[0].conversation_id, "turn_ids": [row.id for row in rows]}
    return {row.turn_id: to_branch(row) for row in (await session.execute(statements.list_branches, parameters)).all()}


def to_branch(row: Any) -> dict[str, Any]:
    """Return which of how many a turn is, as the page shows it."""
    return {"place": row.place, "total": row.total, "previous": row.previous_id, "next": row.next_id}


async def to_replies(session: Session, app: App, who: str, *, rows: Sequence[Any]) -> list[dict[str, Any]]:
    """Return commands and their answers as the page shows them, with new links to the files of the answers."""
    files = await read_files(session, app, who, ids={file["file_id"] for row in rows for file in row.reply["files"]})
    return [
        {
            "reply_id": row.id,
            "turn_id": row.turn_id,
            "event_id": row.event_id,
            "at": row.created_at.isoformat(),
            "line": row.line,
            "content": row.reply["content"],
            "commands": row.reply["commands"],
            "files": [files[file["file_id"]] for file in row.reply["files"] if file["file_id"] in files],
        }
        for row in rows
    ]


async def read_files(session: Session, app: App, who: str, *, ids: set[int]) -> dict[int, dict[str, Any]]:
    """Return those of these files that are this person's, by id, each with a new link."""
    if not ids:
        return {}
    rows = (await session.execute(statements.list_own_files, {"ids": sorted(ids), "who": who})).all()
    return {
        row.id: {
            "file_id": row.id,
            "filename": row.filename,
            "mime_type": row.mime_type,
            "size_bytes": row.size_bytes,
            "url": app.files.storage.sign(row.id),
        }
        for row in rows
        if row.status == "stored"
    }


def list_named_files(steps: Sequence[Shown]) -> Iterator[int]:
    """Yield the ids of the files that a turn's message and its results name."""
    for step in steps:
        if step.role == "user":
            yield from list_attached(step.content)
    yield from list_made(steps)


def list_attached(content: str) -> list[int]:
    """Return the ids of the files that came with a message."""
    return (
        [int(match) for match in ATTACHED.findall(content.rpartition(FILES_HEADING)[2])]
        if FILES_HEADING in content
        else []
    )


def list_made(steps: Sequence[Shown]) -> tuple[int, ...]:
    """Return the ids of the files that tools have made in a turn."""
    results = [
        to_call_step(
            {
                "seq": step.seq,
                "role": step.role,
                "content": step.content,
                "tool_call_id": step.tool_call_id or "",
                "tool_name": step.tool_name,
            }
        )
        for step in steps
        if step.role == "tool_result" and "file_id" in step.content
    ]
    return list_file_ids(results)


def to_turn(app: App, row: Any, steps: Sequence[Shown], *, files: Mapping[int, Any]) -> dict[str, Any]:
    """Return a turn with its events; of one that runs the message alone, because what it does is followed."""
    is_running = row.status == "running"
    last = steps[-1] if steps and steps[-1].role == "assistant" and not is_running else None
    events = [
        event
        for step in steps
        if step is not last and (step.role == "user" or not is_running)
        for event in to_events(app, step, files)
    ]
    if last is not None:
        events.append(to_message(row, last, [files[file_id] for file_id in list_made(steps) if file_id in files]))
    if not is_running:
        usage = {"input_tokens": row.tokens[0], "output_tokens": row.tokens[1]}
        facts = {"iterations": row.iterations, "finished": row.finished, "error": row.error, "model": row.model}
        events.append({"name": "turn_complete", "seq": 0, "usage": usage, **facts})
    facts = {"at": row.started_at.isoformat(), "is_running": is_running, "feedback": row.feedback}
    facts["persona"] = row.persona
    return {"turn_id": row.id, "events": events} | facts


def to_events(app: App, step: Shown, files: Mapping[int, Any]) -> Iterator[dict[str, Any]]:
    """Yield the events of a step other than the answer, as they were told when it was recorded."""
    match step.role:
        case "user":
            attached = [files[file_id] for file_id in list_attached(step.content) if file_id in files]
            yield {"name": "user_message", "seq": step.seq, "content": step.content, "files": attached}
        case "assistant" if step.content.strip() and not step.is_plan:
            # What a model says before it calls tools is recorded as it came.
            yield {"name": "thinking", "seq": step.seq, "text": app.events.outflow().filtered(step.content)}
        case "tool_call":
            arguments = json.loads(step.content)
            yield {
                "name": "tool_call",
                "seq": step.seq,
                "id": step.tool_call_id,
                "tool": step.tool_name,
                "args": arguments,
            }
            if step.tool_name == DELEGATE and isinstance(arguments, dict):
                task = {"agent": arguments.get("agent"), "task": arguments.get("task")}
                yield {"name": "delegation_request", "seq": step.seq, "id": step.tool_call_id, **task}
        case "tool_result":
            yield {
                "name": "tool_result",
                "seq": step.seq,
                "id": step.tool_call_id,
                "result": json.loads(step.content),
                "error": step.outcome in ("failed", "not_run"),
                "needs_approval": step.outcome == "needs_approval",
            }


def to_message(row: Any, answer: Shown, files: Sequence[Any]) -> dict[str, Any]:
    """Return the event of a turn's answer, with the answers that it offers."""
    message: dict[str, Any] = {"name": "message", "seq": answer.seq, "content": answer.content, "files": files}
    choices = [str(choice) for choice in row.choices or ()]
    labels = {choice: label for choice in choices if (label := find_command_label(choice))}
    message["choices"] = [choice for choice in choices if choice not in labels]
    message["commands"] = [{"label": label, "line": line} for line, label in labels.items()]
    if row.confirmation_id is not None:
        message["confirmation"] = {"id": row.confirmation_id}
    return message
