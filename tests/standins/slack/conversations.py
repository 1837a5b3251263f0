"""`conversations.*` and `reactions.*`: what the app may look up about channels, and their messages."""

from tests.standins.slack.api import Call, Kind, method, per_kind
from tests.standins.slack.chat import public_form
from tests.standins.slack.limits import MOST_OBJECTS
from tests.standins.slack.rules import Refused
from tests.standins.slack.world import Json

PAGES: dict[str, Kind] = {
    "cursor": str,
    "limit": int,
    "oldest": str,
    "latest": str,
    "inclusive": bool,
    "include_all_metadata": bool,
}
MOST_MESSAGES = 999


@method(
    "conversations.info",
    *per_kind("read"),
    needs={"channel": str},
    takes={"include_locale": bool, "include_num_members": bool},
)
async def show_channel(call: Call) -> Json:
    channel, world = call.channel(), call.standin.world
    members = world.members[channel["id"]]
    result = channel | {"is_member": call.installation.bot["id"] in members}
    if call.args.get("include_num_members"):
        result["num_members"] = len(members)
    return {"channel": result}


@method("conversations.history", *per_kind("history"), needs={"channel": str}, takes=PAGES)
async def show_history(call: Call) -> Json:
    channel = call.own_channel()
    messages = [message for message in call.standin.world.messages[channel["id"]].values() if _is_top(message)]
    return _page(call, list(reversed(_within(call, messages))), 100)


@method("conversations.replies", *per_kind("history"), needs={"channel": str, "ts": str}, takes=PAGES)
async def show_replies(call: Call) -> Json:
    channel = call.own_channel()
    message = call.message(channel, "thread_not_found")
    root = message.get("thread_ts", message["ts"])
    messages = call.standin.world.messages[channel["id"]].values()
    replies = [message for message in messages if message.get("thread_ts") == root and message["ts"] != root]
    parent = [message for message in messages if message["ts"] == root]
    return _page(call, parent + _within(call, replies), 1000)


def _is_top(message: Json) -> bool:
    return message.get("thread_ts", message["ts"]) == message["ts"] or message.get("subtype") == "thread_broadcast"


def _within(call: Call, messages: list[Json]) -> list[Json]:
    oldest, latest = call.args.get("oldest", "0"), call.args.get("latest", "9999999999.999999")
    edges = (oldest, latest) if call.args.get("inclusive") else ()
    since, until = float(oldest), float(latest)
    return [message for message in messages if since < float(message["ts"]) < until or message["ts"] in edges]


def _page(call: Call, messages: list[Json], usual: int) -> Json:
    limit = call.args.get("limit", usual)
    if not 1 <= limit <= max(MOST_MESSAGES, usual):
        raise Refused("invalid_limit")
    limit = min(limit, MOST_OBJECTS) if call.standin.limits.is_unlisted else limit
    start = _cursor(call)
    page = messages[start : start + limit]
    has_more = start + limit < len(messages)
    with_metadata = bool(call.args.get("include_all_metadata"))
    answer: Json = {
        "messages": [public_form(message, with_metadata=with_metadata) for message in page],
        "has_more": has_more,
    }
    return answer | {"response_metadata": {"next_cursor": f"next:{start + limit}" if has_more else ""}}


def _cursor(call: Call) -> int:
    cursor = call.args.get("cursor") or "next:0"
    word, _, number = cursor.partition(":")
    if word != "next" or not number.isdecimal():
        raise Refused("invalid_cursor")
    return int(number)


@method("conversations.members", *per_kind("read"), tier=4, needs={"channel": str}, takes={"cursor": str, "limit": int})
async def list_members(call: Call) -> Json:
    channel = call.channel()
    members, start, limit = (
        sorted(call.standin.world.members[channel["id"]]),
        _cursor(call),
        call.args.get("limit", 100),
    )
    more = f"next:{start + limit}" if start + limit < len(members) else ""
    return {"members": members[start : start + limit], "response_metadata": {"next_cursor": more}}


@method(
    "users.conversations",
    *per_kind("read"),
    takes={"cursor": str, "limit": int, "types": str, "exclude_archived": bool, "user": str},
)
async def list_own_channels(call: Call) -> Json:
    kinds, world = call.args.get("types", "public_channel").split(","), call.standin.world
    mine = [channel for key, channel in world.channels.items() if call.installation.bot["id"] in world.members[key]]
    channels = [channel for channel in mine if _kind(channel) in kinds]
    return {"channels": channels[: call.args.get("limit", 100)], "response_metadata": {"next_cursor": ""}}


def _kind(channel: Json) -> str:
    if channel["is_im"] or channel["is_mpim"]:
        return "im" if channel["is_im"] else "mpim"
    return "private_channel" if channel["is_private"] else "public_channel"


@method("conversations.join", "channels:join", needs={"channel": str})
async def join(call: Call) -> Json:
    channel = call.channel()
    if channel["is_archived"]:
        raise Refused("is_archived")
    if channel["is_private"]:
        raise Refused("method_not_supported_for_channel_type")
    call.standin.world.members[channel["id"]].add(call.installation.bot["id"])
    return {"channel": channel}


@method(
    "conversations.open", "im:write", takes={"channel": str, "users": str, "return_im": bool, "prevent_creation": bool}
)
async def open_direct(call: Call) -> Json:
    world = call.standin.world
    if call.args.get("channel"):
        return {"channel": {"id": call.channel()["id"]}}
    users = [world.users.get(user_id) for user_id in call.args.get("users", "").split(",")]
    members = [user for user in users if user is not None]
    if len(members) != len(users):
        raise Refused("user_not_found")
    if members == [call.installation.bot]:
        raise Refused("cannot_dm_bot")
    channel = (
        world.add_direct(members[0], call.installation.team)
        if len(members) == 1
        else world.add_group_direct(members, call.installation.team)
    )
    return {"channel": channel if call.args.get("return_im") else {"id": channel["id"]}}


@method("reactions.add", "reactions:write", needs={"channel": str, "timestamp": str, "name": str})
async def add_reaction(call: Call) -> Json:
    reactions = _reactions(call)
    mine = call.installation.bot["id"]
    users = reactions.setdefault(call.args["name"], [])
    if mine in users:
        raise Refused("already_reacted")
    users.append(mine)
    return {}


@method("reactions.remove", "reactions:write", needs={"channel": str, "timestamp": str, "name": str})
async def remove_reaction(call: Call) -> Json:
    users = _reactions(call).get(call.args["name"], [])
    if call.installation.bot["id"] not in users:
        raise Refused("no_reaction")
    users.remove(call.installation.bot["id"])
    return {}


def _reactions(call: Call) -> dict[str, list[str]]:
    if not call.args["name"].replace("_", "").replace("-", "").replace("+", "").isalnum():
        raise Refused("invalid_name")
    channel = call.own_channel()
    if channel["is_archived"]:
        raise Refused("is_archived")
    call.args["ts"] = call.args["timestamp"]
    reactions: dict[str, list[str]] = call.message(channel).setdefault("reacted", {})
    return reactions
