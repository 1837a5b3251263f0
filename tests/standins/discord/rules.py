"""Discord's validation errors: status, code and message."""

import re
from typing import Any

Json = dict[str, Any]

MOST_CHARS, MOST_FILES, MOST_MENTIONED = 2000, 10, 100
MEGABYTE = 1024 * 1024
BY_BOOST_TIER = {2: 50 * MEGABYTE, 3: 100 * MEGABYTE}
# All files of a request together, except where boosts allow a single one to be larger.
MOST_REQUEST = 25 * MEGABYTE
MESSAGE_KEYS = frozenset(
    {"content", "tts", "nonce", "enforce_nonce", "embeds", "allowed_mentions", "message_reference", "components"}
    | {"attachments", "flags", "sticker_ids"}
)
EPHEMERAL = 1 << 6
# Suppressed embeds and notifications, voice messages, components.
ALLOWED_FLAGS = (1 << 2) | (1 << 12) | (1 << 13) | (1 << 15)
MOST_COMMANDS = {1: 100, 2: 15, 3: 15}
BUTTON, SELECT, TEXT_INPUT, LABEL = 2, 3, 4, 18
# The lists that a form may have, with the kind of what is chosen there already.
PICKERS = {3: None, 5: "user", 8: "channel"}
COMMAND_NAME = re.compile(r"^[-_\w]{1,32}$")


class Refused(Exception):
    """An error response."""

    def __init__(self, status: int, code: int, message: str, errors: Any = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.errors = status, code, message, errors

    def body(self) -> Json:
        result = {"code": self.code, "message": self.message}
        return result if self.errors is None else result | {"errors": self.errors}


def invalid(field: str, reason: str, code: str = "INVALID") -> Refused:
    """Return the error for one invalid form field."""
    fault: Any = {"_errors": [{"code": code, "message": reason}]}
    for part in reversed(field.split(".")):
        fault = {part: fault}
    return Refused(400, 50035, "Invalid Form Body", fault)


def check_response(body: Any, files: int) -> None:
    """Refuse a response to an interaction; it may be for one person only."""
    flags = body.get("flags", 0) & ~EPHEMERAL if isinstance(body, dict) else 0
    check_message(body | {"flags": flags} if isinstance(body, dict) else body, files)


def check_deferral(response: Json, _files: int) -> None:
    """Refuse a deferral with anything but the flag that makes the response private."""
    if response.get("flags", 0) & ~EPHEMERAL:
        raise invalid("data.flags", "Flag can not be set.")


def check_message(body: Any, files: int, *, is_edit: bool = False) -> None:
    """Refuse a message that Discord would not accept."""
    if not isinstance(body, dict):
        raise Refused(400, 50109, "The request body contains invalid JSON.")
    if unknown := set(body) - MESSAGE_KEYS:
        raise invalid(min(unknown), "Unknown field")
    content = body.get("content") or ""
    if not isinstance(content, str):
        raise invalid("content", "Could not interpret as string.")
    if len(content.encode("utf-16-le")) // 2 > MOST_CHARS:
        raise invalid("content", "Must be 2000 or fewer in length.", "BASE_TYPE_MAX_LENGTH")
    is_empty = not (content.strip() or files or body.get("embeds") or body.get("components"))
    if is_empty and (not is_edit or "content" in body) and not body.get("attachments"):
        raise Refused(400, 50006, "Cannot send an empty message")
    if files > MOST_FILES:
        raise Refused(400, 30015, "Maximum number of attachments in a message reached (10)")
    if not is_edit and body.get("flags", 0) & ~ALLOWED_FLAGS:
        raise invalid("flags", "Flag can not be set.")
    _check_nonce(body)
    _check_mentions(body.get("allowed_mentions"))
    check_embeds(body.get("embeds") or [])
    check_components(body.get("components") or [])


def _check_nonce(body: Json) -> None:
    nonce = body.get("nonce")
    if nonce is not None and (not isinstance(nonce, (str, int)) or len(str(nonce)) > 25):
        raise invalid("nonce", "Must be 25 or fewer in length.", "NONCE_MAX_LENGTH")


def _check_mentions(mentions: Any) -> None:
    if mentions is None:
        return
    if not isinstance(mentions, dict) or set(mentions) - {"parse", "users", "roles", "replied_user"}:
        raise invalid("allowed_mentions", "Unknown field")
    parse = set(mentions.get("parse", []))
    if parse - {"users", "roles", "everyone"}:
        raise invalid("allowed_mentions.parse", "Value must be one of users, roles, everyone.")
    for kind in ("users", "roles"):
        if kind in parse and mentions.get(kind):
            raise invalid("allowed_mentions", f'parse:["{kind}"] and {kind}: [ids...] are mutually exclusive.')
        if len(mentions.get(kind) or []) > MOST_MENTIONED:
            raise invalid(f"allowed_mentions.{kind}", "Must be 100 or fewer in length.", "BASE_TYPE_MAX_LENGTH")


def check_embeds(embeds: Any) -> None:
    """Refuse embeds that are too many or too long."""
    if not isinstance(embeds, list) or len(embeds) > 10:
        raise invalid("embeds", "Must be 10 or fewer in length.", "BASE_TYPE_MAX_LENGTH")
    for embed in embeds:
        if len(embed.get("description", "")) > 4096 or len(embed.get("title", "")) > 256:
            raise invalid("embeds", "Embed size exceeds maximum size of 6000", "MAX_EMBED_SIZE_EXCEEDED")


def check_components(rows: Any) -> None:
    """Refuse invalid rows of buttons and menus."""
    if not isinstance(rows, list) or len(rows) > 5:
        raise invalid("components", "Must be between 1 and 5 in length.", "BASE_TYPE_BAD_LENGTH")
    custom_ids: set[str] = set()
    for row in rows:
        if row.get("type") != 1 or not 1 <= len(row.get("components", [])) <= 5:
            raise invalid("components.0.components", "Must be between 1 and 5 in length.", "BASE_TYPE_BAD_LENGTH")
        for component in row["components"]:
            _check_component(component, custom_ids)


def _check_component(component: Json, custom_ids: set[str]) -> None:
    if component.get("type") == SELECT:
        if not 1 <= len(component.get("options", [])) <= 25:
            raise invalid("components.0.options", "Must be between 1 and 25 in length.", "BASE_TYPE_BAD_LENGTH")
    elif component.get("type") != BUTTON:
        raise invalid("components.0.type", "Value must be one of 2, 3, 5, 6, 7, 8.")
    elif component.get("style") not in (1, 2, 3, 4, 5):
        raise invalid("components.0.style", "Value must be one of 1, 2, 3, 4, 5, 6.")
    elif not component.get("label") and not component.get("emoji"):
        raise invalid("components.0.label", "A label or an emoji is required.", "BUTTON_COMPONENT_INVALID")
    if len(component.get("label") or "") > 80:
        raise invalid("components.0.label", "Must be 80 or fewer in length.", "BASE_TYPE_MAX_LENGTH")
    custom_id = component.get("custom_id")
    if component.get("style") == 5:
        return
    if not isinstance(custom_id, str) or not 1 <= len(custom_id) <= 100:
        raise invalid("components.0.custom_id", "Must be between 1 and 100 in length.", "BASE_TYPE_BAD_LENGTH")
    if custom_id in custom_ids:
        raise invalid(
            "components.0.custom_id", "Component custom id cannot be duplicated", "COMPONENT_CUSTOM_ID_DUPLICATED"
        )
    custom_ids.add(custom_id)


def check_form(form: Json, _files: int) -> None:
    """Refuse an invalid form; text inputs are in labels, rows are deprecated there."""
    if not 1 <= len(form.get("custom_id", "")) <= 100 or not 1 <= len(form.get("title", "")) <= 45:
        raise invalid("title", "Must be between 1 and 45 in length.", "BASE_TYPE_BAD_LENGTH")
    if not 1 <= len(form.get("components", [])) <= 5:
        raise invalid("components", "Must be between 1 and 5 in length.", "BASE_TYPE_BAD_LENGTH")
    for label in form["components"]:
        if label.get("type") != LABEL or not 1 <= len(label.get("label", "")) <= 45:
            raise invalid("components.0.label", "Must be between 1 and 45 in length.", "BASE_TYPE_BAD_LENGTH")
        _check_field(label.get("component", {}))
    custom_ids = [label["component"]["custom_id"] for label in form["components"]]
    if len(set(custom_ids)) < len(custom_ids):
        raise invalid("components", "Component custom id cannot be duplicated", "COMPONENT_CUSTOM_ID_DUPLICATED")


def _check_field(field: Json) -> None:
    if not 1 <= len(field.get("custom_id", "")) <= 100 or "label" in field:
        raise invalid("components.0.component", "Must be between 1 and 100 in length.", "BASE_TYPE_BAD_LENGTH")
    if field.get("type") in PICKERS:
        least, most = field.get("min_values", 1), field.get("max_values", 1)
        if not 0 <= least <= most <= 25 or (least == 0) == field.get("required", True):
            raise invalid("components.0.component.min_values", "A required field has at least one value.")
        if any(value.get("type") != PICKERS[field["type"]] for value in field.get("default_values", ())):
            raise invalid("components.0.component.default_values", "Value does not fit the kind of list.")
        if field["type"] == SELECT:
            _check_options(field.get("options", []))
    elif field.get("type") != TEXT_INPUT or field.get("style") not in (1, 2):
        raise invalid("components.0.component.type", "Value must be one of 3, 4, 5, 6, 7, 8, 19.")
    elif not 1 <= field.get("max_length", 4000) <= 4000 or len(field.get("value", "")) > field.get("max_length", 4000):
        raise invalid("components.0.component", "Must be between 1 and 4000.", "NUMBER_TYPE_MAX")


def _check_options(options: list[Json]) -> None:
    values = [option.get("value", "") for option in options]
    if not 1 <= len(options) <= 25 or len(set(values)) < len(values):
        raise invalid("components.0.options", "Must be between 1 and 25 in length, and unique.")
    for option in options:
        if not 1 <= len(option.get("label", "")) <= 100 or not 1 <= len(option.get("value", "")) <= 100:
            raise invalid("components.0.options", "Must be between 1 and 100 in length.", "BASE_TYPE_BAD_LENGTH")
        if not 1 <= len(option.get("description", "-")) <= 100:
            raise invalid("components.0.options", "Must be between 1 and 100 in length.", "BASE_TYPE_BAD_LENGTH")


def check_commands(commands: Any) -> None:
    """Refuse a set of commands that could not be registered."""
    if not isinstance(commands, list):
        raise invalid("_", "Only iterables may be used in a ListType")
    for kind, most in MOST_COMMANDS.items():
        if sum(entry.get("type", 1) == kind for entry in commands) > most:
            raise Refused(400, 30032, f"Maximum number of application commands reached ({most})")
    names: set[tuple[int, str]] = set()
    for command in commands:
        kind, name = command.get("type", 1), command.get("name", "")
        if (kind, name) in names:
            raise invalid("name", "Application command names must be unique", "APPLICATION_COMMANDS_DUPLICATE_NAME")
        names.add((kind, name))
        if set(command.get("contexts") or [0]) - {0, 1, 2} or set(command.get("integration_types") or [0]) - {0, 1}:
            raise invalid("contexts", "Value must be one of {0, 1, 2}.")
        if kind == 1:
            _check_chat_command(command)
        elif not 1 <= len(name) <= 32 or command.get("description"):
            raise invalid("description", "Context menu commands cannot have description")


def _check_chat_command(command: Json) -> None:
    name = command["name"]
    if not COMMAND_NAME.match(name) or name != name.lower():
        raise invalid("name", "Command name is invalid", "APPLICATION_COMMAND_INVALID_NAME")
    if not 1 <= len(command.get("description", "")) <= 100:
        raise invalid("description", "Must be between 1 and 100 in length.", "BASE_TYPE_BAD_LENGTH")
    options = command.get("options", [])
    if len(options) > 25:
        raise invalid("options", "Must be 25 or fewer in length.", "BASE_TYPE_BAD_LENGTH")
    kinds = {option["type"] for option in options}
    if kinds & {1, 2} and kinds - {1, 2}:
        raise invalid("options", "Sub-command option types are mutually exclusive to all other types")
    was_optional = False
    for option in options:
        if option.get("required") and was_optional:
            raise invalid("options", "Required options must be placed before non-required options")
        was_optional = was_optional or not option.get("required", False)
        _check_chat_command(option)
