"""A persona as a text that a person edits: YAML between two lines of dashes, and below it the prompt."""

from collections.abc import Mapping
from types import NoneType
from typing import Any

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
    "suggestions",
    "open_to",
)
COLUMNS = ("id", *EDITED, "is_default", PROMPT)
TEXT = ((str, NoneType), "a text (ids in quotes), or null")
LIST, NUMBER = ((list, NoneType), "a list of names, or null"), ((int, NoneType), "a whole number, or null")
# What a value has to be where it is no text, and how a person is told.
EXPECTATIONS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "allowed_modules": LIST,
    "skills": LIST,
    "suggestions": ((list, NoneType), "a list of texts, or null"),
    "max_tokens_per_request": NUMBER,
    "max_iterations": NUMBER,
    "max_temperature": ((int, float, NoneType), "a number, or null"),
    "allow_mentions": ((bool,), "true or false"),
}


def to_draft(values: Mapping[str, Any]) -> str:
    """Return the text for a persona's values."""
    # Imported here, as below: only a text that is edited needs it.
    import yaml

    head = yaml.safe_dump({name: values[name] for name in EDITED}, sort_keys=False, allow_unicode=True)
    return f"---\n{head}---\n{values[PROMPT]}\n"


def read_draft(draft: str, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of an edited text; a line that was removed stays as it was. Raises `Refusal`."""
    import yaml

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
        types, expectation = EXPECTATIONS.get(name, TEXT)
        entries = value if isinstance(value, list) else ()
        if type(value) not in types or not all(isinstance(entry, str) for entry in entries):
            raise Refusal(f"{name} is {value!r}; it has to be {expectation}.")
    if not prompt.strip():
        raise Refusal("The prompt is empty.")
    return {name: before[name] for name in EDITED} | fields | {PROMPT: prompt.strip()}
