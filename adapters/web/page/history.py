"""What the page follows: messages that are not answered yet, those that arrive, and the replies to commands."""

import json
from collections.abc import Sequence
from typing import Any

from msgspec.structs import asdict

from agent.commands import CommandReply
from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.messages import Place
from shared.text import MAX_ID, cut, to_command_line, without_credential

statements = load_statements(__file__)

# A credential may stand in such a line.
CREDENTIAL_COMMAND = "/credential"
LINE_CHARS = 2000


async def list_arrivals(
    session: Session, place: Place, prefix: str, *, after: int = 0, after_turn: int
) -> list[dict[str, Any]]:
    """Return the messages of a chat behind `after` that are open, or whose turn is newer than `after_turn`."""
    parameters = {"place_key": place.key, "channel": place.channel, "after": after, "after_turn": after_turn}
    return [
        {
            "message": row.id,
            "event_id": row.platform_event_id.removeprefix(prefix),
            "content": row.content,
            "files": [{"filename": file["filename"], "size_bytes": file["size_bytes"]} for file in row.attachments],
            "turn_id": row.turn_id,
            "is_due": row.is_due,
        }
        for row in (await session.execute(statements.list_arrivals, parameters)).all()
    ]


async def leave_out_shown(
    session: Session, arrivals: list[dict[str, Any]], turns: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return those open messages that `turns`, which were read after them, do not show whole.

    A message whose turn has begun meanwhile names it: the page would show it twice.
    """
    if not arrivals:
        return []
    ids = [arrival["message"] for arrival in arrivals]
    rows = (await session.execute(statements.list_turns_of_messages, {"ids": ids})).all()
    turn_ids = {row.id: row.turn_id for row in rows}
    is_running = {turn["turn_id"]: turn["is_running"] for turn in turns}
    open_ones = [arrival | {"turn_id": turn_ids.get(arrival["message"])} for arrival in arrivals]
    return [message for message in open_ones if is_running.get(message["turn_id"], True)]


async def find_message(session: Session, place: Place, inbox_id: int) -> int | None:
    """Return the inbox id of a message of this chat; None for any other."""
    parameters = {"id": inbox_id, "place_key": place.key}
    row = (await session.execute(statements.find_message_here, parameters)).one_or_none()
    return None if row is None else int(row.id)


async def keep_reply(
    session: Session, place: Place, *, who: str, event_id: str, line: str, reply: CommandReply
) -> None:
    """Keep a command and its answer with the chat, unless the line may hold a credential."""
    if (to_command_line(line) or "").lower().startswith(CREDENTIAL_COMMAND):
        return
    content: dict[str, Any] = {
        "content": reply.text,
        "files": [{"file_id": file.file_id} for file in reply.files],
        "commands": [asdict(choice) for choice in reply.choices],
    }
    shown = cut(without_credential(line.strip()), LINE_CHARS)
    parameters = {"channel": place.channel, "who": who, "event_id": event_id, "line": shown}
    await session.execute(statements.keep_reply, parameters | {"reply": json.dumps(content)})


async def find_newest_reply(session: Session, place: Place) -> int:
    """Return the id of the last reply to a command in a chat, 0 without any."""
    return int((await session.execute(statements.find_newest_reply, {"channel": place.channel})).scalar_one())


async def find_changes(
    session: Session, who: str, place: Place, *, after_title: int = MAX_ID
) -> tuple[str, list[tuple[str, str, int]], int]:
    """Return which branch of a chat is chosen, empty where there are none, the titles of chats named since, and now.

    A title comes with its chat, and with what the next ones come after.
    """
    first = f"{place.channel.rpartition('/')[0]}/"
    parameters = {"channel": place.channel, "who": who, "first": first, "after_title": after_title}
    row = (await session.execute(statements.find_changes, parameters)).one()
    return str(row.branch), [(chat, title, moment) for chat, title, moment in row.titles or ()], row.moment


async def list_answers(session: Session, place: Place, after: int) -> list[dict[str, Any]]:
    """Return the last answers in the other chats of this chat's person since a moment, oldest first."""
    own = place.channel.rpartition("/")[0]
    parameters = {"channel": place.channel, "first": f"{own}/", "behind": f"{own}0", "after": after}
    rows = (await session.execute(statements.list_answers, parameters)).all()
    return [{"chat": row.chat, "content": row.content, "moment": row.moment} for row in rows]


async def list_new_replies(session: Session, place: Place, after: int, *, session_id: int) -> Sequence[Any] | None:
    """Return what commands have answered in a chat behind a reply; None when the session that asks has ended."""
    parameters = {"channel": place.channel, "after": after, "session_id": session_id}
    rows = (await session.execute(statements.list_new_replies, parameters)).all()
    return [row for row in rows if row.id is not None] if rows else None
