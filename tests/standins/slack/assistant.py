"""`assistant.threads.*` and `agents.sessions.*`: title, status and suggested prompts of the agent's conversations."""

from tests.standins.slack.api import Call, Kind, method
from tests.standins.slack.rules import Refused
from tests.standins.slack.world import Json

WHERE: dict[str, Kind] = {"channel_id": str, "thread_ts": str}
MOST_PROMPTS = 4
MOST_TITLE_CHARS = 200
SESSION_STATUSES = ("active", "processing", "suspended", "closed")


@method(
    "assistant.threads.setStatus",
    "assistant:write",
    tier=0,
    needs=WHERE,
    takes={"status": str, "loading_messages": list, "icon_emoji": str, "icon_url": str, "username": str},
)
async def set_status(call: Call) -> Json:
    if len(call.args.get("loading_messages", [])) > 10:
        raise Refused("invalid_arguments", "no more than 10 items allowed [json-pointer:/loading_messages]")
    thread = _thread(call)
    thread["status"] = call.args.get("status", "")
    thread["statuses"].append(thread["status"])
    await call.standin.tell()
    return {}


@method("assistant.threads.setTitle", "assistant:write", needs={**WHERE, "title": str})
async def set_title(call: Call) -> Json:
    _thread(call, is_panel=True)["title"] = call.args["title"]
    await call.standin.tell()
    return {}


@method(
    "assistant.threads.setSuggestedPrompts",
    "assistant:write",
    needs={"channel_id": str, "prompts": list},
    takes={"thread_ts": str, "title": str},
)
async def set_suggested_prompts(call: Call) -> Json:
    prompts = call.args["prompts"]
    if not 1 <= len(prompts) <= MOST_PROMPTS or any(set(prompt) != {"title", "message"} for prompt in prompts):
        raise Refused("invalid_arguments", "must be up to 4 of title and message [json-pointer:/prompts]")
    if call.standin.experience == "agent":
        # With a thread, the call has no effect and no error.
        if not call.args.get("thread_ts"):
            call.standin.world.prompts[call.own_channel("channel_id")["id"]] = prompts
    else:
        _thread(call, is_panel=True)["prompts"] = prompts
    await call.standin.tell()
    return {}


@method(
    "agents.sessions.setStatus",
    "chat:write",
    needs={"channel_id": str, "status": str},
    takes={"thread_ts": str, "title": str, "initiator_user_id": str},
)
async def set_session_status(call: Call) -> Json:
    title = call.args.get("title", "")
    if len(title) > MOST_TITLE_CHARS:
        raise Refused("invalid_arguments", "must be at most 200 characters [json-pointer:/title]")
    if call.args["status"] not in SESSION_STATUSES:
        raise Refused("invalid_arguments", "must be a status [json-pointer:/status]")
    session = _session(call)
    if not session["statuses"]:
        # An existing session keeps its title.
        session["title"] = title
    session["status"] = call.args["status"]
    session["statuses"].append(session["status"])
    await call.standin.tell()
    return {"status": session["status"], "title": session["title"]}


@method("agents.sessions.rename", "chat:write", needs={"channel_id": str, "title": str}, takes={"thread_ts": str})
async def rename_session(call: Call) -> Json:
    _session(call)["title"] = call.args["title"]
    await call.standin.tell()
    return {"title": call.args["title"]}


def _session(call: Call) -> Json:
    """Return the session of a thread; only agents have sessions."""
    if call.standin.experience != "agent":
        raise Refused("not_authorized")
    channel, thread_ts = call.own_channel("channel_id"), call.args.get("thread_ts", "")
    if thread_ts not in call.standin.world.messages[channel["id"]]:
        raise Refused("invalid_thread_ts")
    new = {"title": "", "status": "", "statuses": []}
    return call.standin.world.sessions.setdefault((channel["id"], thread_ts), new)


def _thread(call: Call, *, is_panel: bool = False) -> Json:
    """Return the thread's state; only threads of the panel have a title and prompts."""
    channel = call.own_channel("channel_id")
    key = (channel["id"], call.args.get("thread_ts", ""))
    threads = call.standin.world.assistant_threads
    if is_panel and key not in threads:
        raise Refused("invalid_thread_ts" if channel["is_im"] else "method_not_supported_for_channel_type")
    if key not in threads and key[1] not in call.standin.world.messages[channel["id"]]:
        raise Refused("invalid_thread_ts")
    return threads.setdefault(key, {"title": "", "status": "", "statuses": [], "prompts": []})
