"""`chat.*` except streams: messages that the app posts, edits and deletes."""

from typing import Any

from tests.standins.slack.api import Call, Kind, method
from tests.standins.slack.rules import MOST_CHANGED_TEXT, Refused, check_texts
from tests.standins.slack.world import Json, stamp

SAYING: dict[str, Kind] = {
    "text": str,
    "blocks": list,
    "attachments": list,
    "markdown_text": str,
    "link_names": bool,
    "parse": str,
    "metadata": dict,
}
LOOKS: dict[str, Kind] = {"icon_emoji": str, "icon_url": str, "username": str, "as_user": bool}
POSTING: dict[str, Kind] = {
    "thread_ts": str,
    "reply_broadcast": bool,
    "unfurl_links": bool,
    "unfurl_media": bool,
    "mrkdwn": bool,
    "client_msg_id": str,
}


def content_of(args: Json) -> Json:
    """Return text and blocks as stored: Markdown becomes a block, with its source as text."""
    markdown = args.get("markdown_text")
    blocks = [{"type": "markdown", "text": markdown}] if markdown else args.get("blocks", [])
    content: Json = {"text": markdown or args.get("text", "")}
    if blocks:
        content["blocks"] = [{"block_id": f"b{number}", **block} for number, block in enumerate(blocks)]
    return content | {key: args[key] for key in ("attachments", "metadata") if args.get(key)}


def writable(call: Call) -> Json:
    """Return the target channel: a person's id means the direct conversation."""
    user = call.standin.world.users.get(call.args["channel"])
    if user is not None:
        return call.standin.world.add_direct(user, call.installation.team)
    channel = call.own_channel()
    if channel["is_archived"]:
        raise Refused("is_archived")
    return channel


def check_thread(call: Call, channel: Json) -> None:
    """Refuse a reply to a message that does not exist."""
    thread_ts = call.args.get("thread_ts")
    if thread_ts and thread_ts not in call.standin.world.messages[channel["id"]]:
        raise Refused("thread_not_found")


def check_metadata(metadata: Json | None) -> None:
    """Refuse metadata without its two fields."""
    if metadata and not (metadata.get("event_type") and isinstance(metadata.get("event_payload"), dict)):
        raise Refused("invalid_metadata_format")


def by_bot(call: Call) -> Json:
    """Return the fields that mark a message as the app's."""
    installation, world = call.installation, call.standin.world
    profile = {"id": installation.bot_id, "app_id": world.app_id, "name": installation.bot["real_name"]}
    return {
        "user": installation.bot["id"],
        "bot_id": installation.bot_id,
        "app_id": world.app_id,
        "team": installation.team["id"],
        "bot_profile": profile | {"team_id": installation.team["id"]},
    }


@method("chat.postMessage", "chat:write", needs={"channel": str}, takes={**SAYING, **LOOKS, **POSTING})
async def post_message(call: Call) -> Json:
    args, standin = call.args, call.standin
    check_texts(args)
    check_metadata(args.get("metadata"))
    channel = writable(call)
    check_thread(call, channel)
    fields = by_bot(call) | {key: args[key] for key in ("thread_ts", "client_msg_id") if args.get(key)}
    if args.get("thread_ts") and args.get("reply_broadcast"):
        fields["subtype"] = "thread_broadcast"
    content = content_of(args)
    fields["unfurled"] = _unfurled(args, content["text"])
    message = standin.world.keep_message(channel, content.pop("text"), **content, **fields)
    await standin.events.message(channel, message)
    return {"channel": channel["id"], "ts": message["ts"], "message": public_form(message)}


def _unfurled(args: Json, text: str) -> bool:
    """Tell whether Slack would unfurl a link, which it does by default."""
    return "http" in text and (args.get("unfurl_links", True) or args.get("unfurl_media", True))


@method(
    "chat.postEphemeral",
    "chat:write",
    tier=4,
    needs={"channel": str, "user": str},
    takes={**SAYING, **LOOKS, "thread_ts": str},
)
async def post_ephemeral(call: Call) -> Json:
    check_texts(call.args)
    channel = writable(call)
    if call.args["user"] not in call.standin.world.members[channel["id"]]:
        raise Refused("user_not_in_channel")
    fields = {"thread_ts": call.args["thread_ts"]} if call.args.get("thread_ts") else {}
    fields |= by_bot(call) | {"channel": channel["id"], "for": call.args["user"], "ts": stamp()}
    call.standin.world.ephemerals.append({**content_of(call.args), **fields})
    return {"message_ts": fields["ts"]}


@method(
    "chat.update",
    "chat:write",
    needs={"channel": str, "ts": str},
    takes={**SAYING, "as_user": bool, "file_ids": str, "reply_broadcast": bool},
)
async def update(call: Call) -> Json:
    check_texts(call.args, MOST_CHANGED_TEXT)
    check_metadata(call.args.get("metadata"))
    channel = call.channel()
    message = call.message(channel)
    if message.get("bot_id") != call.installation.bot_id:
        raise Refused("cant_update_message")
    if message.get("is_streaming"):
        raise Refused("streaming_state_conflict")
    if channel["is_archived"]:
        raise Refused("is_archived")
    await call.standin.change(channel, message, content_of(call.args), edited_by=call.installation.bot["id"])
    return {"channel": channel["id"], "ts": message["ts"], "text": message["text"], "message": public_form(message)}


@method("chat.delete", "chat:write", needs={"channel": str, "ts": str}, takes={"as_user": bool})
async def delete(call: Call) -> Json:
    channel = call.channel()
    message = call.message(channel)
    if message.get("bot_id") != call.installation.bot_id:
        raise Refused("cant_delete_message")
    await call.standin.forget(channel, message)
    return {"channel": channel["id"], "ts": message["ts"]}


@method("chat.getPermalink", tier=0, needs={"channel": str, "message_ts": str})
async def get_permalink(call: Call) -> Json:
    channel = call.channel()
    call.args["ts"] = call.args["message_ts"]
    message = call.message(channel)
    team = call.standin.world.teams[channel["context_team_id"]]
    link = f"{team['url']}archives/{channel['id']}/p{message['ts'].replace('.', '')}"
    return {"channel": channel["id"], "permalink": link}


def public_form(message: Json, *, with_metadata: bool = True) -> Json:
    """Return a message in the API's format, without the stand-in's own fields."""
    hidden: set[str] = {"unfurled", "is_streaming", "tasks", "stream"} | (set() if with_metadata else {"metadata"})
    fields: dict[str, Any] = {key: value for key, value in message.items() if key not in hidden}
    return fields
