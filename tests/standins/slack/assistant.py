"""`assistant.threads.*`: title, status and suggested prompts of a conversation in the assistant's panel."""

from tests.standins.slack.api import Call, Kind, method
from tests.standins.slack.rules import Refused
from tests.standins.slack.world import Json

WHERE: dict[str, Kind] = {"channel_id": str, "thread_ts": str}
MOST_PROMPTS = 4


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
    if not 1 <= len(prompts) <= MOST_PROMPTS or any(set(each) != {"title", "message"} for each in prompts):
        raise Refused("invalid_arguments", "must be up to 4 of title and message [json-pointer:/prompts]")
    _thread(call, is_panel=True)["prompts"] = prompts
    await call.standin.tell()
    return {}


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
