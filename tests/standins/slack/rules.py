"""Slack's validation: texts, blocks and views that are too long, too many or invalid."""

from typing import Any

from tests.standins.slack.world import Json

MOST_TEXT, MOST_MARKDOWN, MOST_BLOCKS, MOST_VIEW_BLOCKS = 40_000, 12_000, 50, 100
# The limit for edited messages is lower than for new ones, in contrast to the reference.
MOST_CHANGED_TEXT = 4_000
_MESSAGE_BLOCKS = (
    "actions alert card carousel context context_actions divider file header image markdown plan rich_text section "
    "table task_card video"
)
MESSAGE_BLOCKS = frozenset(_MESSAGE_BLOCKS.split())
_VIEW_BLOCKS = "actions alert carousel card container context divider header image input rich_text section table video"
VIEW_BLOCKS = frozenset(_VIEW_BLOCKS.split())
_ELEMENTS = (
    "button checkboxes datepicker datetimepicker overflow radio_buttons timepicker workflow_button static_select "
    "external_select users_select conversations_select channels_select multi_static_select multi_users_select "
    "plain_text_input email_text_input number_input url_text_input rich_text_input image feedback_buttons icon_button "
    "mrkdwn plain_text"
)
ELEMENTS = frozenset(_ELEMENTS.split())
STYLES = (None, "primary", "danger")


class Refused(Exception):
    """The API answers `ok: false` with this error and more fields."""

    def __init__(self, error: str, *messages: str, status: int = 200, **more: Any) -> None:
        super().__init__(error)
        self.error, self.status = error, status
        self.answer: Json = {"ok": False, "error": error, **more}
        if messages:
            self.answer["response_metadata"] = {"messages": [f"[ERROR] {message}" for message in messages]}


def check_texts(args: Json, most: int = MOST_TEXT) -> None:
    """Refuse a message that is empty, too long, or has contradictory content."""
    text, markdown, blocks = args.get("text") or "", args.get("markdown_text") or "", args.get("blocks") or []
    if markdown and (text or blocks):
        raise Refused("markdown_text_conflict")
    if not (text or markdown or blocks or args.get("attachments")):
        raise Refused("no_text")
    if len(text) > most or len(markdown) > MOST_MARKDOWN:
        raise Refused("msg_too_long")
    check_blocks(blocks)


def check_blocks(blocks: Any, *, is_view: bool = False) -> None:
    """Refuse invalid blocks."""
    most = MOST_VIEW_BLOCKS if is_view else MOST_BLOCKS
    if not isinstance(blocks, list):
        raise Refused("invalid_blocks_format")
    if len(blocks) > most:
        raise Refused("invalid_blocks", f"no more than {most} items allowed [json-pointer:/blocks]")
    ids = [block["block_id"] for block in blocks if block.get("block_id")]
    if len(ids) != len(set(ids)):
        raise Refused("invalid_blocks", "`block_id` must be unique [json-pointer:/blocks]")
    if not is_view and _length(blocks) > MOST_MARKDOWN:
        raise Refused("msg_blocks_too_long", "blocks hold 12000 characters together [json-pointer:/blocks]")
    if sum(block.get("type") == "table" for block in blocks) > 1:
        raise Refused("invalid_attachments", "only_one_table_allowed")
    for number, block in enumerate(blocks):
        _check_block(block, f"/blocks/{number}", is_view=is_view)


def _length(value: Any) -> int:
    """Return the number of characters in all texts of the blocks."""
    if isinstance(value, dict):
        text = value.get("text")
        return (len(text) if isinstance(text, str) else 0) + sum(
            _length(inner) for inner in value.values() if isinstance(inner, dict | list)
        )
    return sum(_length(inner) for inner in value) if isinstance(value, list) else 0


def _bad(where: str, why: str) -> Refused:
    return Refused("invalid_blocks", f"{why} [json-pointer:{where}]")


def _check_block(block: Json, where: str, *, is_view: bool) -> None:
    kind = block.get("type")
    if kind not in (VIEW_BLOCKS if is_view else MESSAGE_BLOCKS):
        raise _bad(f"{where}/type", f"unsupported type: {kind}")
    if len(block.get("block_id", "")) > 255:
        raise _bad(f"{where}/block_id", "must be less than 256 characters")
    if kind == "section":
        _check_section(block, where)
    elif kind == "header":
        check_text(block.get("text"), f"{where}/text", 150, kinds=("plain_text",))
    elif kind in ("actions", "context", "context_actions"):
        _check_elements(block, where, {"actions": 25, "context": 10, "context_actions": 5}[kind])
    elif kind == "table":
        _check_table(block, where)
    elif kind == "input":
        check_text(block.get("label"), f"{where}/label", 2000, kinds=("plain_text",))
        _check_element(block.get("element"), f"{where}/element", set())
    elif kind == "markdown" and not block.get("text"):
        raise _bad(f"{where}/text", "must be more than 0 characters")


def check_text(text: Any, where: str, most: int, *, kinds: tuple[str, ...] = ("plain_text", "mrkdwn")) -> None:
    """Refuse a text object that is missing, empty, too long or of the wrong type."""
    if not isinstance(text, dict) or text.get("type") not in kinds:
        raise _bad(where, f"must be a text object of type {' or '.join(kinds)}")
    if not text.get("text"):
        raise _bad(f"{where}/text", "must be more than 0 characters")
    if len(text["text"]) > most:
        raise _bad(f"{where}/text", f"must be less than {most + 1} characters")


def _check_section(block: Json, where: str) -> None:
    if "text" not in block and "fields" not in block:
        raise _bad(where, "missing required field: text or fields")
    if "text" in block:
        check_text(block["text"], f"{where}/text", 3000)
    if len(block.get("fields", ())) > 10:
        raise _bad(f"{where}/fields", "no more than 10 items allowed")
    for number, field in enumerate(block.get("fields", ())):
        check_text(field, f"{where}/fields/{number}", 2000)
    if "accessory" in block:
        _check_element(block["accessory"], f"{where}/accessory", set())


def _check_elements(block: Json, where: str, most: int) -> None:
    elements = block.get("elements")
    if not isinstance(elements, list) or not 1 <= len(elements) <= most:
        raise _bad(f"{where}/elements", f"must have between 1 and {most} items")
    action_ids: set[str] = set()
    for number, element in enumerate(elements):
        _check_element(element, f"{where}/elements/{number}", action_ids)


def _check_element(element: Any, where: str, action_ids: set[str]) -> None:
    if not isinstance(element, dict) or element.get("type") not in ELEMENTS:
        raise _bad(where, "unsupported element")
    action_id = element.get("action_id")
    if action_id is not None and (len(action_id) > 255 or action_id in action_ids):
        raise _bad(f"{where}/action_id", "must be unique and less than 256 characters")
    action_ids.add(action_id or str(id(element)))
    kind = element["type"]
    if kind in ("mrkdwn", "plain_text"):
        check_text(element, where, 3000)
    elif kind == "button":
        _check_button(element, where)
    elif kind in ("static_select", "multi_static_select", "overflow", "radio_buttons", "checkboxes"):
        _check_options(element, where)
    if "confirm" in element:
        for name, most in (("title", 100), ("text", 300), ("confirm", 30), ("deny", 30)):
            check_text(element["confirm"].get(name), f"{where}/confirm/{name}", most)


def _check_button(button: Json, where: str) -> None:
    check_text(button.get("text"), f"{where}/text", 75, kinds=("plain_text",))
    if len(button.get("value", "")) > 2000:
        raise _bad(f"{where}/value", "must be less than 2001 characters")
    if len(button.get("url", "")) > 3000:
        raise _bad(f"{where}/url", "must be less than 3001 characters")
    if button.get("style") not in STYLES:
        raise _bad(f"{where}/style", "must be primary or danger")


def _check_options(element: Json, where: str) -> None:
    options = element.get("options") or [
        choice for group in element.get("option_groups", ()) for choice in group.get("options", ())
    ]
    most = {"overflow": 5, "radio_buttons": 10, "checkboxes": 10}.get(element["type"], 100)
    if not 1 <= len(options) <= most:
        raise _bad(f"{where}/options", f"must have between 1 and {most} items")
    for number, option in enumerate(options):
        check_text(option.get("text"), f"{where}/options/{number}/text", 75)
        if "description" in option:
            check_text(option["description"], f"{where}/options/{number}/description", 75)
        if not 1 <= len(option.get("value", "")) <= 150:
            raise _bad(f"{where}/options/{number}/value", "must be less than 151 characters")
    if "initial_option" in element and element["initial_option"] not in options:
        raise _bad(f"{where}/initial_option", "must exactly match one of the options")


def _check_table(block: Json, where: str) -> None:
    rows = block.get("rows")
    if not isinstance(rows, list) or not 1 <= len(rows) <= 100:
        raise _bad(f"{where}/rows", "must have between 1 and 100 items")
    if any(not 1 <= len(row) <= 20 for row in rows):
        raise _bad(f"{where}/rows", "must have between 1 and 20 columns")


def check_view(view: Any) -> None:
    """Refuse an invalid modal or home tab."""
    if not isinstance(view, dict) or view.get("type") not in ("modal", "home"):
        raise Refused("invalid_arguments", "must be a modal or a home [json-pointer:/view/type]")
    if len(view.get("private_metadata", "")) > 3000 or len(view.get("callback_id", "")) > 255:
        raise Refused("invalid_arguments", "must be less than 3001 characters [json-pointer:/view/private_metadata]")
    names = ("title", "submit", "close") if view["type"] == "modal" else ()
    for name in names:
        if name != "title" and name not in view:
            continue
        check_text(view.get(name), f"/view/{name}", 24, kinds=("plain_text",))
    check_blocks(view.get("blocks"), is_view=True)
    has_input = any(block["type"] == "input" for block in view["blocks"])
    if view["type"] == "modal" and has_input and "submit" not in view:
        raise Refused("invalid_arguments", "a view with inputs needs a submit [json-pointer:/view/submit]")
