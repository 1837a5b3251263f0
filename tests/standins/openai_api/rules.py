"""The real API's validation, with its error format. Each rule raises `Refused` and changes nothing."""

import json
import re
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

from tests.standins.openai_api.formats import check_response_format
from tests.standins.openai_api.refusals import Refused

__all__ = ["Refused", "check"]

TOOL_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
SPEAKER_NAME = re.compile(r"^[^\s<|\\/>]{1,64}$")
MAX_TOOLS = 128
MAX_DESCRIPTION = 1024
MAX_CALL_ID = 40
IMAGE = re.compile(r"^data:image/(png|jpeg|webp|gif);base64,")
IMAGE_HEADS = {"png": b"\x89PNG\r\n\x1a\n", "jpeg": b"\xff\xd8\xff", "webp": b"RIFF", "gif": b"GIF8"}

PARAMETERS: Mapping[str, tuple[type, ...]] = {
    "audio": (dict,),
    "frequency_penalty": (int, float),
    "logit_bias": (dict,),
    "logprobs": (bool,),
    "max_completion_tokens": (int,),
    "max_tokens": (int,),
    "messages": (list,),
    "metadata": (dict,),
    "modalities": (list,),
    "model": (str,),
    "n": (int,),
    "parallel_tool_calls": (bool,),
    "prediction": (dict,),
    "presence_penalty": (int, float),
    "prompt_cache_key": (str,),
    "reasoning_effort": (str,),
    "response_format": (dict,),
    "safety_identifier": (str,),
    "seed": (int,),
    "service_tier": (str,),
    "stop": (str, list),
    "store": (bool,),
    "stream": (bool,),
    "stream_options": (dict,),
    "temperature": (int, float),
    "tool_choice": (str, dict),
    "tools": (list,),
    "top_logprobs": (int,),
    "top_p": (int, float),
    "user": (str,),
    "verbosity": (str,),
    "web_search_options": (dict,),
}
NEEDS_TOOLS = ("tool_choice", "parallel_tool_calls")
MESSAGE_KEYS: Mapping[str, frozenset[str]] = {
    "developer": frozenset({"role", "content", "name"}),
    "system": frozenset({"role", "content", "name"}),
    "user": frozenset({"role", "content", "name"}),
    "assistant": frozenset({"role", "content", "name", "tool_calls", "refusal", "audio", "function_call"}),
    "tool": frozenset({"role", "content", "tool_call_id"}),
}
PARTS: Mapping[str, frozenset[str]] = {
    "developer": frozenset({"text"}),
    "system": frozenset({"text"}),
    "user": frozenset({"text", "image_url", "input_audio", "file"}),
    "assistant": frozenset({"text", "refusal"}),
    "tool": frozenset({"text"}),
}


def too_long(body: Mapping[str, Any], window: int | None) -> str | None:
    """Return the real API's error for a request that exceeds the context window; four bytes are a token."""
    if window is None:
        return None
    prompt_tokens = sum(len(json.dumps(message)) for message in body["messages"]) // 4
    tools = len(json.dumps(body.get("tools") or "")) // 4
    answer = body.get("max_completion_tokens") or body.get("max_tokens") or 0
    if prompt_tokens + tools + answer <= window:
        return None
    parts = f"{prompt_tokens} in the messages, {tools} in the functions, and {answer} in the completion"
    return (
        f"This model's maximum context length is {window} tokens. However, you requested"
        f" {prompt_tokens + tools + answer} tokens ({parts})."
        " Please reduce the length of the messages, functions, or completion."
    )


def check(body: Any) -> None:
    """Raise `Refused` for the first error in a chat completion request."""
    if not isinstance(body, dict):
        raise Refused("We could not parse the JSON body of your request: it must be an object.")
    _check_parameters(body)
    _check_tools(body)
    if not body["messages"]:
        raise Refused("[] is too short - 'messages'", "messages")
    call_ids: list[str] = []
    for index, message in enumerate(body["messages"]):
        call_ids = _check_message(message, index, call_ids)
    if call_ids:
        raise Refused(_unanswered(call_ids), "messages")
    check_response_format(body)


def _check_parameters(body: dict[str, Any]) -> None:
    for name, value in body.items():
        kinds = PARAMETERS.get(name)
        if kinds is None:
            raise Refused(f"Unrecognized request argument supplied: {name}")
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise Refused(f"Invalid type for '{name}': got {type(value).__name__}.", name, "invalid_type")
    if not body.get("model"):
        raise Refused("you must provide a model parameter")
    if "messages" not in body:
        raise Refused("Missing required parameter: 'messages'.", "messages", "missing_required_parameter")
    if "stream_options" in body and not body.get("stream"):
        raise Refused("The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options")
    _check_numbers(body)


def _check_numbers(body: dict[str, Any]) -> None:
    if "max_tokens" in body and "max_completion_tokens" in body:
        raise Refused(
            "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.", "max_tokens"
        )
    for name in ("max_tokens", "max_completion_tokens"):
        if body.get(name, 1) < 1:
            raise Refused(f"Invalid '{name}': integer below minimum value.", name, "integer_below_min_value")
    if not 0 <= body.get("temperature", 1) <= 2:
        raise Refused("Invalid 'temperature': must be between 0 and 2.", "temperature")


def _check_tools(body: dict[str, Any]) -> None:
    if "tools" not in body:
        for name in NEEDS_TOOLS:
            if name in body:
                raise Refused(f"'{name}' is only allowed when 'tools' are specified.", name)
        return
    if not 1 <= len(body["tools"]) <= MAX_TOOLS:
        raise Refused(f"Invalid 'tools': expected 1 to {MAX_TOOLS} elements, got {len(body['tools'])}.", "tools")
    names: set[str] = set()
    for index, tool in enumerate(body["tools"]):
        name = _check_tool(tool, f"tools[{index}]")
        if name in names:
            raise Refused(f"Tool names must be unique: '{name}' is given twice.", "tools")
        names.add(name)
    choice = body.get("tool_choice", "auto")
    if isinstance(choice, str) and choice not in ("none", "auto", "required"):
        raise Refused(f"Invalid value: '{choice}'.", "tool_choice")
    if isinstance(choice, dict) and choice.get("function", {}).get("name") not in names:
        raise Refused("Tool choice names no tool of 'tools'.", "tool_choice")


def _check_tool(tool: Any, where: str) -> str:
    if not isinstance(tool, dict) or tool.get("type") != "function" or not isinstance(tool.get("function"), dict):
        raise Refused(f"Invalid '{where}': only tools of type 'function' are known.", where)
    function = tool["function"]
    for key in function:
        if key not in ("name", "description", "parameters", "strict"):
            raise Refused(f"Unknown parameter: '{where}.function.{key}'.", where, "unknown_parameter")
    name = function.get("name")
    if not isinstance(name, str) or not TOOL_NAME.match(name):
        raise Refused(
            f"Invalid '{where}.function.name': string does not match pattern '{TOOL_NAME.pattern}'.",
            f"{where}.function.name",
            "invalid_value",
        )
    if len(function.get("description", "")) > MAX_DESCRIPTION:
        raise Refused(
            f"Invalid '{where}.function.description': longer than {MAX_DESCRIPTION}.", where, "string_above_max_length"
        )
    parameters = function.get("parameters")
    if parameters is not None and (not isinstance(parameters, dict) or parameters.get("type") != "object"):
        raise Refused(f"Invalid schema for function '{name}': schema must be of type \"object\".", where)
    return name


def _check_message(message: Any, index: int, call_ids: list[str]) -> list[str]:
    """Check one message; return the ids of the tool calls that still wait for their result after it."""
    where = f"messages[{index}]"
    role = message.get("role") if isinstance(message, dict) else None
    if not isinstance(role, str) or role not in MESSAGE_KEYS:
        raise Refused(f"Invalid value: '{role}'. Supported values are: {', '.join(MESSAGE_KEYS)}.", f"{where}.role")
    for key in message:
        if key not in MESSAGE_KEYS[role]:
            raise Refused(f"Additional properties are not allowed ('{key}' was unexpected) - '{where}'", where)
    if role == "tool":
        _check_content(message, role, where)
        return _answered(message, where, call_ids)
    if call_ids:
        raise Refused(_unanswered(call_ids), where)
    if "name" in message and not (isinstance(message["name"], str) and SPEAKER_NAME.match(message["name"])):
        raise Refused(f"Invalid '{where}.name': does not match '{SPEAKER_NAME.pattern}'.", f"{where}.name")
    calls = _check_calls(message["tool_calls"], where) if "tool_calls" in message else []
    if not calls or message.get("content") is not None:
        _check_content(message, role, where)
    return calls


def _check_content(message: dict[str, Any], role: str, where: str) -> None:
    content = message.get("content")
    if isinstance(content, str):
        return
    if not isinstance(content, list) or not content:
        type_name = "null" if content is None else type(content).__name__
        raise Refused(f"Invalid value for 'content': expected a string, got {type_name}.", f"{where}.content")
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in PARTS[role] or kind not in part:
            raise Refused(f"Invalid content part '{kind}' in a message of role '{role}'.", f"{where}.content")
        if kind == "text" and not isinstance(part["text"], str):
            raise Refused("Invalid type for a text part: expected a string.", f"{where}.content", "invalid_type")
        if kind == "image_url":
            _check_image(part["image_url"], f"{where}.content")


def _check_image(image: Any, where: str) -> None:
    url = image.get("url") if isinstance(image, dict) else None
    if not isinstance(url, str):
        raise Refused("Invalid type for 'image_url': expected an object with an 'url'.", where, "invalid_type")
    if url.startswith(("https://", "http://")):
        return
    match = IMAGE.match(url)
    if match is None:
        raise Refused("Invalid 'image_url': neither a web address nor base64-encoded.", where, "invalid_image_url")
    try:
        content = b64decode(url[match.end() :], validate=True)
    except ValueError:
        raise Refused("Invalid base64 in 'image_url'.", where, "invalid_base64") from None
    if not content.startswith(IMAGE_HEADS[match[1]]):
        raise Refused(f"The image data is no valid image/{match[1]}.", where, "invalid_image_format")


def _check_calls(calls: Any, where: str) -> list[str]:
    if not isinstance(calls, list) or not calls:
        raise Refused(f"[] is too short - '{where}.tool_calls'", f"{where}.tool_calls")
    ids: list[str] = []
    for call in calls:
        function = call.get("function") if isinstance(call, dict) and call.get("type") == "function" else None
        if not isinstance(function, dict) or not TOOL_NAME.match(str(function.get("name", ""))):
            raise Refused("Invalid tool call: a function with a valid name is needed.", f"{where}.tool_calls")
        if not isinstance(function.get("arguments"), str):
            raise Refused(
                "Invalid type for 'function.arguments': expected a string.", f"{where}.tool_calls", "invalid_type"
            )
        call_id = call.get("id")
        if not isinstance(call_id, str) or not 1 <= len(call_id) <= MAX_CALL_ID or call_id in ids:
            raise Refused(
                f"Invalid id of a tool call: 1 to {MAX_CALL_ID} characters, each once.", f"{where}.tool_calls"
            )
        ids.append(call_id)
    return ids


def _answered(message: dict[str, Any], where: str, call_ids: list[str]) -> list[str]:
    if message.get("tool_call_id") not in call_ids:
        raise Refused(
            "Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls'.",
            f"{where}.role",
        )
    return [call_id for call_id in call_ids if call_id != message["tool_call_id"]]


def _unanswered(call_ids: list[str]) -> str:
    return (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"These did not have response messages: {', '.join(call_ids)}"
    )
