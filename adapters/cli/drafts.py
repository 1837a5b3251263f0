"""A persona as a text that a person edits: YAML between two lines of dashes, and below it the prompt."""

from collections.abc import Mapping
from typing import Any

import yaml

from shared.errors import Refusal

PROMPT = "system_prompt"
EDITED = (
    "name",
    "platform",
    "platform_server_id",
    "platform_channel_id",
    "allowed_modules",
    "skills",
    "default_model",
    "max_tokens_per_request",
    "max_temperature",
    "max_iterations",
    "loop_mode",
    "allow_mentions",
)
COLUMNS = ("id", *EDITED, "is_default", PROMPT)
LISTS, NUMBERS = {"allowed_modules", "skills"}, {"max_tokens_per_request", "max_iterations"}


def to_draft(values: Mapping[str, Any]) -> str:
    """Return the text for a persona's values."""
    head = yaml.safe_dump({name: values[name] for name in EDITED}, sort_keys=False, allow_unicode=True)
    return f"---\n{head}---\n{values[PROMPT]}\n"


def read_draft(draft: str, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of an edited text; a line that was removed stays as it was. Raises `Refusal`."""
    head, dashes, prompt = draft.removeprefix("---\n").partition("\n---\n")
    if not dashes:
        raise Refusal("The draft needs its settings between two lines of three dashes, and the prompt below them.")
    try:
        fields = yaml.safe_load(head)
    except yaml.YAMLError as error:
        raise Refusal(f"The YAML can't be read: {' '.join(str(error).split())}") from None
    if not isinstance(fields, dict) or not set(fields) <= set(EDITED):
        raise Refusal(f"Between the dashes stand lines NAME: VALUE, with the names {', '.join(EDITED)}.")
    for name, value in fields.items():
        _check(name, value)
    if not prompt.strip():
        raise Refusal("The prompt is empty.")
    return {name: before[name] for name in EDITED} | fields | {PROMPT: prompt.strip()}


def _check(name: str, value: object) -> None:
    if name in LISTS:
        is_right = value is None or (isinstance(value, list) and all(isinstance(entry, str) for entry in value))
        expectation = "a list of names, or null"
    elif name in NUMBERS:
        is_right, expectation = value is None or type(value) is int, "a whole number, or null"
    elif name == "max_temperature":
        is_right, expectation = value is None or type(value) in (int, float), "a number, or null"
    elif name == "allow_mentions":
        is_right, expectation = isinstance(value, bool), "true or false"
    else:
        is_right, expectation = value is None or isinstance(value, str), "a text (ids in quotes), or null"
    if not is_right:
        raise Refusal(f"{name} is {value!r}; it has to be {expectation}.")
