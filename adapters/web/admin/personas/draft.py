"""A persona as it stands in the form: the fields of the row, or what was entered."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from adapters.web.texts import say
from agent.commands.forms.entries import Form
from shared.errors import Refusal

MODULE, SKILL = "module.", "skill."


class Draft(Struct, frozen=True):
    """What the form of a persona shows: texts by field, and which modules and skills are ticked."""

    values: Mapping[str, str]

    def text(self, name: str) -> str:
        """Return a field as it is shown."""
        return self.values.get(name, "")

    def has(self, name: str) -> bool:
        """Return whether a box is ticked."""
        return name in self.values

    def list_ticked(self, prefix: str) -> list[str]:
        """Return the names whose boxes are ticked."""
        return sorted(name.removeprefix(prefix) for name in self.values if name.startswith(prefix))


def from_row(row: Any) -> Draft:
    """Return the draft of a stored persona."""
    texts = {
        "name": row.name,
        "system_prompt": row.system_prompt,
        "platform": row.platform,
        "server": row.platform_server_id,
        "channel": row.platform_channel_id,
        "model": row.default_model,
        "max_tokens": row.max_tokens_per_request,
        "max_temperature": row.max_temperature,
        "max_iterations": row.max_iterations,
        "loop_mode": row.loop_mode,
        "open_to": row.open_to,
        "version": row.version,
        "only_modules": row.allowed_modules is not None or None,
        "allow_mentions": row.allow_mentions or None,
        "is_default": row.is_default or None,
        "suggestions": "\n".join(row.suggestions or ()),
    }
    ticks = [f"{MODULE}{name}" for name in row.allowed_modules or ()] + [f"{SKILL}{name}" for name in row.skills or ()]
    return Draft({name: str(value) for name, value in texts.items() if value is not None} | dict.fromkeys(ticks, "on"))


def to_parameters(form: Form) -> dict[str, Any]:
    """Return what a form says as the parameters of `admin.define_persona`; raises `Refusal` for what is no number."""
    draft = Draft(form.values)
    name = form.text("name")
    if not name:
        raise Refusal(say("admin.a_persona_needs_a_name"))
    return {
        "name": name,
        "system_prompt": form.text("system_prompt"),
        "platform": form.optional("platform"),
        "server": form.optional("server"),
        "channel": form.optional("channel"),
        "modules": draft.list_ticked(MODULE) if draft.has("only_modules") else None,
        "skills": draft.list_ticked(SKILL) or None,
        "model": form.optional("model"),
        "max_tokens": form.number("max_tokens"),
        "max_temperature": to_float(form.text("max_temperature")),
        "max_iterations": form.number("max_iterations"),
        "loop_mode": form.optional("loop_mode"),
        "open_to": form.optional("open_to"),
        "allow_mentions": draft.has("allow_mentions"),
        "is_default": draft.has("is_default"),
        "new_name": None,
        "suggestions": [line.strip() for line in form.text("suggestions").splitlines() if line.strip()] or None,
    }


def to_fields(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters as `persona_versions.fields` has them, as far as an answer depends on them."""
    return {
        "system_prompt": parameters["system_prompt"],
        "allowed_modules": parameters["modules"],
        "default_model": parameters["model"],
        "max_tokens_per_request": parameters["max_tokens"],
        "max_iterations": parameters["max_iterations"],
        "max_temperature": parameters["max_temperature"],
        "loop_mode": parameters["loop_mode"],
    }


def to_float(text: str) -> float | None:
    """Return a number with a fraction, None if the field is empty; raises `Refusal`."""
    if not text:
        return None
    try:
        return float(text.replace(",", "."))
    except ValueError:
        raise Refusal(say("admin.no_such_number", text=repr(text[:40]))) from None
