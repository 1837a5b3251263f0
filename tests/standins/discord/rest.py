"""The REST calls: each gets the world and the request, and returns a body or raises `Refused`."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.standins.discord import rules
from tests.standins.discord.gateway import GUILD_REACTIONS
from tests.standins.discord.rules import Refused
from tests.standins.discord.world import FORUM, HAS_THREAD, SUPPRESS_EMBEDS, THREAD, Json, now

if TYPE_CHECKING:
    from tests.standins.discord.server import DiscordStandIn

UNKNOWN_CHANNEL = (404, 10003, "Unknown Channel")
UNKNOWN_MESSAGE = (404, 10008, "Unknown Message")


@dataclass(frozen=True)
class Call:
    """One parsed request."""

    standin: "DiscordStandIn"
    ids: tuple[str, ...]
    query: dict[str, str]
    body: Any = None
    files: list[tuple[str, str, bytes]] = field(default_factory=list)


Answer = Callable[[Call], Awaitable[Any]]
ROUTES: list[tuple[str, re.Pattern[str], Answer]] = []


def route(method: str, path: str) -> Callable[[Answer], Answer]:
    """Register the function for a method and a path with `{}` for each id."""
    pattern = re.compile("^" + re.escape(path).replace(r"\{\}", "([^/]+)") + "$")

    def register(answer: Answer) -> Answer:
        ROUTES.append((method, pattern, answer))
        return answer

    return register


@route("GET", "/users/@me")
async def get_me(call: Call) -> Json:
    return call.standin.world.bot


@route("GET", "/oauth2/applications/@me")
@route("GET", "/applications/@me")
async def get_application(call: Call) -> Json:
    world = call.standin.world
    return {
        "id": world.bot["id"],
        "name": "Parley",
        "description": "",
        "icon": None,
        "bot_public": True,
        "bot_require_code_grant": False,
        "owner": next(iter(world.people.values())),
        "verify_key": "0" * 64,
        "flags": world.application_flags,
        "interactions_endpoint_url": None,
        "team": None,
    }


@route("GET", "/gateway/bot")
async def get_gateway(call: Call) -> Json:
    limit = {
        "total": 1000,
        "remaining": call.standin.sessions_left,
        "reset_after": 14400000,
        "max_concurrency": call.standin.gateway.max_concurrency,
    }
    return {"url": call.standin.gateway.url, "shards": call.standin.shards, "session_start_limit": limit}


@route("GET", "/users/@me/guilds")
async def list_guilds(call: Call) -> list[Json]:
    world = call.standin.world
    return [
        {"id": guild["id"], "name": guild["name"], "owner": False, "permissions": str(world.permissions(guild))}
        for guild in world.guilds.values()
        if (guild["id"], world.bot["id"]) in world.members
    ]


@route("POST", "/users/@me/channels")
async def open_private(call: Call) -> Json:
    person = call.standin.world.people.get(str(call.body["recipient_id"]))
    if person is None or person["bot"]:
        raise Refused(400, 50033, "Invalid Recipient(s)")
    return call.standin.world.add_private(person)


@route("GET", "/guilds/{}")
async def get_guild(call: Call) -> Json:
    if (call.ids[0], call.standin.world.bot["id"]) not in call.standin.world.members:
        raise Refused(404, 10004, "Unknown Guild")
    return call.standin.world.guilds[call.ids[0]]


@route("GET", "/guilds/{}/members/{}")
async def get_member(call: Call) -> Json:
    guild_id, person_id = call.ids
    if (guild_id, person_id) not in call.standin.world.members:
        raise Refused(404, 10007, "Unknown Member")
    return call.standin.world.member(guild_id, person_id)


@route("GET", "/guilds/{}/audit-logs")
async def get_audit_log(call: Call) -> Json:
    world, guild_id = call.standin.world, call.ids[0]
    inviter = world.inviters.get(guild_id)
    if inviter is None:
        raise Refused(403, 50013, "Missing Permissions")
    entry = {"id": guild_id, "user_id": inviter, "target_id": world.bot["id"], "action_type": 28}
    return {"audit_log_entries": [entry], "users": [world.people[inviter]]}


@route("GET", "/channels/{}")
async def get_channel(call: Call) -> Json:
    return _channel(call, "view_channel")


@route("GET", "/channels/{}/messages")
async def list_messages(call: Call) -> list[Json]:
    channel = _channel(call, "view_channel")
    limit = int(call.query.get("limit", "50"))
    if not 1 <= limit <= 100:
        raise rules.invalid("limit", "int value should be between 1 and 100.")
    if not call.standin.world.may(channel, "read_message_history"):
        return []
    after, before = int(call.query.get("after", "0")), int(call.query.get("before", str(1 << 63)))
    messages = [
        message for key, message in call.standin.world.messages[call.ids[0]].items() if after < int(key) < before
    ]
    # With `after` the oldest later messages are returned, without it the newest; both are sorted newest first.
    return list(reversed(messages[:limit] if "after" in call.query else messages[-limit:]))


@route("GET", "/channels/{}/messages/{}")
async def get_message(call: Call) -> Json:
    _channel(call, "read_message_history")
    return _message(call)


@route("POST", "/channels/{}/messages")
async def post_message(call: Call) -> Json:
    channel = _channel(call, "send_messages")
    if channel["type"] == FORUM:
        raise Refused(400, 50008, "Cannot send messages in a non-text channel")
    rules.check_message(call.body, len(call.files))
    if call.files:
        _channel(call, "attach_files")
    standin, world = call.standin, call.standin.world
    if (nonce := standin.find_nonce(call.body)) is not None:
        return nonce
    reference = _reference(call, channel)
    attachments = standin.keep_files(channel["id"], call.files)
    message = world.keep_message(
        channel,
        world.bot,
        (call.body.get("content") or "").strip(),
        attachments=attachments,
        components=call.body.get("components") or [],
        embeds=call.body.get("embeds") or [],
        flags=call.body.get("flags", 0),
        **reference,
    )
    standin.remember_nonce(call.body, message)
    await standin.tell_message("MESSAGE_CREATE", message)
    return message


def _reference(call: Call, channel: Json) -> Json:
    reference = call.body.get("message_reference")
    if reference is None:
        return {}
    world = call.standin.world
    if not world.may(channel, "read_message_history"):
        raise Refused(400, 160002, "Cannot reply without permission to read message history")
    if str(reference.get("channel_id", channel["id"])) != channel["id"]:
        raise rules.invalid(
            "message_reference",
            "Cannot reply to a message in another channel",
            "REPLIES_CANNOT_REFERENCE_OTHER_CHANNEL",
        )
    message = world.find_message(channel["id"], str(reference["message_id"]))
    if message is None:
        if reference.get("fail_if_not_exists", True):
            raise rules.invalid("message_reference", "Unknown message", "REPLIES_UNKNOWN_MESSAGE")
        return {}
    result = {"message_id": message["id"], "channel_id": channel["id"], "guild_id": channel.get("guild_id")}
    return {"type": 19, "message_reference": result, "referenced_message": message}


@route("PATCH", "/channels/{}/messages/{}")
async def edit_message(call: Call) -> Json:
    channel, message = _channel(call, "view_channel"), _message(call)
    if message["author"]["id"] != call.standin.world.bot["id"]:
        raise Refused(403, 50005, "Cannot edit a message authored by another user")
    rules.check_message(call.body, len(call.files), is_edit=True)
    if call.files:
        _channel(call, "attach_files")
    return await change_message(call, channel, message)


async def change_message(call: Call, channel: Json, message: Json) -> Json:
    """Edit the given fields, and dispatch the event; of the flags, only `SUPPRESS_EMBEDS` changes."""
    if "attachments" in call.body:
        # Only files that are listed stay or are added; a new one is listed by the number in its field's name.
        ids = {str(attachment["id"]) for attachment in call.body["attachments"] or []}
        old = [attachment for attachment in message["attachments"] if attachment["id"] in ids]
        new = [file for file in call.files if file[0].removeprefix("files[").removesuffix("]") in ids]
        message["attachments"] = old + call.standin.keep_files(channel["id"], new)
    if "content" in call.body:
        message["content"] = (call.body["content"] or "").strip()
    for key in ("components", "embeds"):
        if key in call.body:
            message[key] = call.body[key] or []
    if "flags" in call.body:
        message["flags"] = message["flags"] & ~SUPPRESS_EMBEDS | (call.body["flags"] or 0) & SUPPRESS_EMBEDS
    message["edited_timestamp"] = now()
    await call.standin.tell_message("MESSAGE_UPDATE", message)
    return message


@route("DELETE", "/channels/{}/messages/{}")
async def delete_message(call: Call) -> None:
    channel, message = _channel(call, "view_channel"), _message(call)
    await call.standin.forget_message(channel, message)


@route("PUT", "/channels/{}/messages/{}/reactions/{}/@me")
async def add_reaction(call: Call) -> None:
    _channel(call, "add_reactions")
    message = _message(call)
    message.setdefault("reactions", []).append({"emoji": {"id": None, "name": call.ids[2]}, "count": 1, "me": True})
    event = {"user_id": call.standin.world.bot["id"], "channel_id": call.ids[0], "message_id": call.ids[1]}
    event |= {"emoji": {"id": None, "name": call.ids[2]}, "burst": False, "type": 0}
    guild_id = call.standin.world.channels[call.ids[0]].get("guild_id")
    await call.standin.gateway.dispatch("MESSAGE_REACTION_ADD", event, guild_id, GUILD_REACTIONS)


@route("DELETE", "/channels/{}/messages/{}/reactions/{}/@me")
async def remove_reaction(call: Call) -> None:
    message = _message(call)
    reactions = [reaction for reaction in message.get("reactions", []) if reaction["emoji"]["name"] != call.ids[2]]
    message["reactions"] = reactions


@route("POST", "/channels/{}/typing")
async def type_on(call: Call) -> None:
    _channel(call, "send_messages")


@route("POST", "/channels/{}/messages/{}/threads")
async def start_thread(call: Call) -> Json:
    parent, message = _channel(call, "create_public_threads"), _message(call)
    if parent["type"] == THREAD:
        raise Refused(400, 50024, "Cannot execute action on this channel type")
    if message["flags"] & HAS_THREAD:
        raise Refused(400, 160004, "A thread has already been created for this message")
    name = call.body.get("name", "")
    if not 1 <= len(name) <= 100:
        raise rules.invalid("name", "Must be between 1 and 100 in length.", "BASE_TYPE_BAD_LENGTH")
    world = call.standin.world
    thread = world.add_thread(parent, name, world.bot["id"], message["id"])
    message["flags"] |= HAS_THREAD
    await call.standin.gateway.dispatch("THREAD_CREATE", thread | {"newly_created": True}, parent["guild_id"])
    return thread


@route("PUT", "/applications/{}/commands")
async def put_commands(call: Call) -> list[Json]:
    if call.ids[0] != call.standin.world.bot["id"]:
        raise Refused(403, 20012, "You are not authorized to perform this action on this application")
    rules.check_commands(call.body)
    call.standin.commands = [
        command | {"id": str(index + 1), "version": "1"} for index, command in enumerate(call.body)
    ]
    return call.standin.commands


@route("GET", "/applications/{}/commands")
async def get_commands(call: Call) -> list[Json]:
    return call.standin.commands


def _channel(call: Call, permission: str) -> Json:
    channel = call.standin.world.channels.get(call.ids[0])
    if channel is None:
        raise Refused(*UNKNOWN_CHANNEL)
    if not call.standin.world.may(channel, "view_channel"):
        raise Refused(403, 50001, "Missing Access")
    if not call.standin.world.may(channel, permission):
        raise Refused(403, 50013, "Missing Permissions")
    return channel


def _message(call: Call) -> Json:
    message = call.standin.world.find_message(call.ids[0], call.ids[1])
    if message is None:
        raise Refused(*UNKNOWN_MESSAGE)
    return message
