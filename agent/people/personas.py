"""Personas: the most specific one for a place, one by its id, and one with other fields."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from agent.people.participants import DEFAULT_MAX_OUTPUT_TOKENS, ResolvedPersona, to_persona
from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.messages import Permission, Place
from shared.settings import Settings

statements = load_statements(__file__)


async def resolve_persona(
    session: Session, place: Place, permission: Permission, *, settings: Settings
) -> ResolvedPersona:
    """Return the persona of the channel, else of the server, the platform, the default, or the built-in one.

    Where a person has chosen another one for their conversation, it is that.
    """
    parameters = {"platform": place.platform, "server": place.server, "channel": place.channel}
    parameters |= {"thread": place.thread, "permission": permission.label}
    return to_persona((await session.execute(statements.find_persona, parameters)).one_or_none(), permission, settings)


async def get_persona(
    session: Session, persona_id: int, permission: Permission, *, settings: Settings
) -> ResolvedPersona:
    """Return the persona with this id; the built-in one if it no longer exists."""
    return to_persona(
        (await session.execute(statements.get_persona, {"id": persona_id})).one_or_none(), permission, settings
    )


def with_fields(persona: ResolvedPersona, fields: Mapping[str, Any]) -> ResolvedPersona:
    """Return the persona with the instructions, model, modules and limits of `persona_versions.fields`."""
    field = fields.get("allowed_modules")
    return replace(
        persona,
        system_prompt=fields["system_prompt"],
        allowed_modules=None if field is None else frozenset(field),
        model=fields.get("default_model"),
        max_output_tokens=fields.get("max_tokens_per_request") or DEFAULT_MAX_OUTPUT_TOKENS,
        max_iterations=fields.get("max_iterations") or persona.max_iterations,
        max_temperature=fields.get("max_temperature"),
        loop_mode=fields.get("loop_mode"),
    )
