"""`chat.startStream`, `appendStream`, `stopStream`: a message that grows in pieces of text and task cards."""

import time
from typing import Any

from tests.standins.slack.api import Call, Kind, method
from tests.standins.slack.chat import LOOKS, by_bot, check_metadata, check_thread, public_form, writable
from tests.standins.slack.rules import MOST_MARKDOWN, Refused, check_blocks
from tests.standins.slack.world import Json

STATUSES = ("pending", "in_progress", "complete", "error")
MOST_TITLE, MOST_CARD_TEXT = 256, 3000
PIECES: dict[str, Kind] = {"markdown_text": str, "chunks": list}
STARTING: dict[str, Kind] = {
    "thread_ts": str,
    "recipient_user_id": str,
    "recipient_team_id": str,
    "task_display_mode": str,
}


@method(
    "chat.startStream",
    "chat:write",
    tier=2,
    needs={"channel": str, "thread_ts": str},
    takes={**PIECES, **STARTING, **LOOKS},
)
async def start_stream(call: Call) -> Json:
    args, standin = call.args, call.standin
    channel = writable(call)
    check_thread(call, channel)
    if not channel["is_im"]:
        _check_recipient(call, channel)
    if args.get("task_display_mode", "timeline") not in ("timeline", "plan", "dense"):
        raise Refused("invalid_arguments", "must be timeline or plan [json-pointer:/task_display_mode]")
    pieces = _pieces(args)
    parameters = by_bot(call) | {"thread_ts": args["thread_ts"], "is_streaming": True, "tasks": {}}
    parameters["stream"] = {"mode": args.get("task_display_mode", "timeline"), "began": time.monotonic(), "pieces": []}
    message = standin.world.keep_message(channel, "", **parameters)
    _grow(message, pieces)
    await standin.events.message(channel, message)
    return {"channel": channel["id"], "ts": message["ts"]}


def _check_recipient(call: Call, channel: Json) -> None:
    user_id, team_id = call.args.get("recipient_user_id"), call.args.get("recipient_team_id")
    if not team_id:
        raise Refused("missing_recipient_team_id")
    if not user_id:
        raise Refused("missing_recipient_user_id")
    user = call.standin.world.users.get(user_id)
    if user is None or user_id not in call.standin.world.members[channel["id"]] or user["team_id"] != team_id:
        raise Refused("user_not_found")


@method("chat.appendStream", "chat:write", tier=4, needs={"channel": str, "ts": str}, takes=PIECES)
async def append_stream(call: Call) -> Json:
    channel, message = _streaming(call)
    pieces = _pieces(call.args)
    if not pieces:
        raise Refused("no_text")
    _grow(message, pieces)
    await call.standin.tell()
    return {"channel": channel["id"], "ts": message["ts"]}


@method(
    "chat.stopStream",
    "chat:write",
    tier=2,
    needs={"channel": str, "ts": str},
    takes={**PIECES, "blocks": list, "metadata": dict, "session_status": str},
)
async def stop_stream(call: Call) -> Json:
    channel, message = _streaming(call)
    check_metadata(call.args.get("metadata"))
    check_blocks(call.args.get("blocks", []))
    _grow(message, _pieces(call.args))
    message["is_streaming"] = False
    if call.args.get("metadata"):
        message["metadata"] = call.args["metadata"]
    session = call.standin.world.sessions.get((channel["id"], message["thread_ts"]))
    if session is not None:
        session["status"] = call.args.get("session_status", "active")
        session["statuses"].append(session["status"])
    message["blocks"] = [*_blocks(message), *call.args.get("blocks", [])]
    await call.standin.events.changed(channel, message, dict(message))
    return {"channel": channel["id"], "ts": message["ts"], "message": public_form(message)}


def _streaming(call: Call) -> tuple[Json, Json]:
    channel = call.own_channel()
    message = call.message(channel)
    if message.get("bot_id") != call.installation.bot_id:
        raise Refused("message_not_owned_by_app")
    expires = call.standin.stream_seconds
    if message.get("is_streaming") and time.monotonic() - message["stream"]["began"] > expires:
        message["is_streaming"] = False
    if not message.get("is_streaming"):
        raise Refused("message_not_in_streaming_state")
    return channel, message


def _pieces(args: Json) -> list[Json]:
    """Return the chunks to append; plain text is one chunk."""
    text, chunks = args.get("markdown_text"), args.get("chunks") or []
    if text and chunks:
        raise Refused("invalid_arguments", "markdown_text and chunks exclude each other [json-pointer:/chunks]")
    pieces: list[Any] = [{"type": "markdown_text", "text": text}] if text else chunks
    for number, piece in enumerate(pieces):
        _check_piece(piece, number)
    if sum(len(piece.get("text", "")) for piece in pieces if piece["type"] == "markdown_text") > MOST_MARKDOWN:
        raise Refused("msg_too_long")
    return pieces


def _check_piece(piece: Any, number: int) -> None:
    kind = piece.get("type") if isinstance(piece, dict) else None
    if kind not in ("markdown_text", "task_update", "plan_update", "blocks"):
        raise Refused("invalid_chunks", f"unknown chunk [json-pointer:/chunks/{number}/type]")
    if kind == "markdown_text" and not isinstance(piece.get("text"), str):
        raise Refused("invalid_chunks", f"missing required field: text [json-pointer:/chunks/{number}]")
    if kind == "blocks":
        check_blocks(piece.get("blocks"))
    if kind not in ("task_update", "plan_update"):
        return
    if not 0 < len(piece.get("title", "")) <= MOST_TITLE:
        raise Refused("invalid_chunks", f"must have between 1 and 256 characters [json-pointer:/chunks/{number}/title]")
    if kind == "task_update" and (not piece.get("id") or piece.get("status", "pending") not in STATUSES):
        raise Refused("invalid_chunks", f"needs an id and a status [json-pointer:/chunks/{number}]")
    if any(len(str(piece.get(key, ""))) > MOST_CARD_TEXT for key in ("details", "output")):
        raise Refused("msg_too_long")


def _grow(message: Json, pieces: list[Json]) -> None:
    for piece in pieces:
        message["stream"]["pieces"].append(piece)
        if piece["type"] == "markdown_text":
            message["text"] += piece["text"]
        elif piece["type"] == "task_update":
            message["tasks"][piece["id"]] = message["tasks"].get(piece["id"], {}) | piece
        elif piece["type"] == "plan_update":
            message["stream"]["title"] = piece["title"]


def _blocks(message: Json) -> list[Json]:
    cards = [
        {"type": "task_card", "task_id": task["id"], "title": task["title"], "status": task.get("status", "pending")}
        for task in message["tasks"].values()
    ]
    text = [{"type": "markdown", "text": message["text"]}] if message["text"] else []
    return [*cards, *text]
