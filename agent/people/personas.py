"""Personas: finds the most specific persona for a place, or uses the built-in one."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Literal

from sqlalchemy import and_, bindparam, case, literal, or_, select

from agent.people.skills import NO_SKILLS, STORED, PersonaSkills, to_skills
from agent.prompts import prompts
from shared.db.driver import Session
from shared.messages import Place
from shared.models import Persona, PersonaVersion
from shared.permissions import Permission
from shared.settings import Settings

LoopMode = Literal["native", "planner"]
# Why a persona answers: it belongs to the channel, server or platform, it is the default, or there is none of these; or
# the turn is that of an agent.
ChosenBy = Literal["channel", "server", "platform", "default", "built_in", "agent"]


def choose_mode(chosen: LoopMode | None, conversation_id: int, planner_percent: int) -> LoopMode:
    """Return `chosen` if it is set; otherwise `planner` for `planner_percent` percent of all conversations.

    The mode of a conversation is stable: one that is planned at 10 percent is also planned at 20.
    """
    if chosen is not None:
        return chosen
    digest = sha256(f"planner {conversation_id}".encode()).digest()
    return "planner" if int.from_bytes(digest[:8]) % 100 < planner_percent else "native"


DEFAULT_MAX_OUTPUT_TOKENS = 2048


@dataclass(frozen=True, slots=True)
class Choice:
    """Which version of a persona answers, a row of `persona_versions`, and why it; the built-in one has no versions."""

    by: ChosenBy = "built_in"
    version_id: int | None = None


BUILT_IN = Choice()


@dataclass(frozen=True, slots=True)
class ResolvedPersona:
    """The fields of a persona that a turn needs.

    `allowed_modules` None: all modules that the permission allows. `loop_mode` None: `choose_mode` decides.
    """

    id: int | None
    name: str
    system_prompt: str
    allowed_modules: frozenset[str] | None
    model: str | None
    max_output_tokens: int
    max_iterations: int
    loop_mode: LoopMode | None = None
    skills: PersonaSkills = NO_SKILLS
    choice: Choice = BUILT_IN


async def resolve_persona(
    session: Session, place: Place, permission: Permission, *, settings: Settings
) -> ResolvedPersona:
    """Return the persona of the channel, else of the server, the platform, the default, or the built-in one."""
    given = {"platform": place.platform, "server": place.server, "channel": place.channel}
    return to_persona((await session.execute(CLOSEST, given)).one_or_none(), permission, settings)


async def get_persona(
    session: Session, persona_id: int, permission: Permission, *, settings: Settings
) -> ResolvedPersona:
    """Return the persona with this id; the built-in one if it no longer exists."""
    return to_persona((await session.execute(BY_ID, {"id": persona_id})).one_or_none(), permission, settings)


COLUMNS = (
    Persona.id,
    Persona.name,
    Persona.system_prompt,
    Persona.allowed_modules,
    Persona.default_model,
    Persona.max_tokens_per_request,
    Persona.max_iterations,
    Persona.loop_mode,
    Persona.skills,
    STORED,
    select(PersonaVersion.id)
    .where(PersonaVersion.persona_id == Persona.id)
    .order_by(PersonaVersion.version.desc())
    .limit(1)
    .scalar_subquery()
    .label("version_id"),
)
HERE = and_(
    Persona.platform == bindparam("platform"),
    or_(Persona.platform_server_id.is_(None), Persona.platform_server_id == bindparam("server")),
    or_(Persona.platform_channel_id.is_(None), Persona.platform_channel_id == bindparam("channel")),
)
RANKS: dict[ChosenBy, int] = {"channel": 3, "server": 2, "platform": 1, "default": 0}
CLOSENESS = case(
    (and_(HERE, Persona.platform_channel_id.is_not(None)), RANKS["channel"]),
    (and_(HERE, Persona.platform_server_id.is_not(None)), RANKS["server"]),
    (HERE, RANKS["platform"]),
    else_=RANKS["default"],
)
CHOSEN_BY = {rank: chosen_by for chosen_by, rank in RANKS.items()}
# Built once, because building the statements takes longer than running them.
BY_ID = select(*COLUMNS, literal(None).label("closeness")).where(Persona.id == bindparam("id"))
CLOSEST = (
    select(*COLUMNS, CLOSENESS.label("closeness"))
    .where(or_(HERE, Persona.is_default))
    .order_by(CLOSENESS.desc(), Persona.id)
    .limit(1)
)


def to_persona(row: Any, permission: Permission, settings: Settings) -> ResolvedPersona:
    """Return the persona from a row of `CLOSEST`; the built-in one if the row is None."""
    if row is None:
        return _built_in(permission, settings)
    return ResolvedPersona(
        id=row.id,
        name=row.name,
        system_prompt=row.system_prompt,
        allowed_modules=None if row.allowed_modules is None else frozenset(row.allowed_modules),
        model=row.default_model,
        max_output_tokens=row.max_tokens_per_request or DEFAULT_MAX_OUTPUT_TOKENS,
        max_iterations=row.max_iterations or settings.max_agent_iterations,
        loop_mode=row.loop_mode,
        skills=to_skills(row.skills, row.stored_skills),
        choice=Choice(CHOSEN_BY.get(row.closeness, "agent"), row.version_id),
    )


def with_fields(persona: ResolvedPersona, fields: Mapping[str, Any]) -> ResolvedPersona:
    """Return the persona with the instructions, model, modules and limits of `persona_versions.fields`."""
    allowed = fields.get("allowed_modules")
    return replace(
        persona,
        system_prompt=fields["system_prompt"],
        allowed_modules=None if allowed is None else frozenset(allowed),
        model=fields.get("default_model"),
        max_output_tokens=fields.get("max_tokens_per_request") or DEFAULT_MAX_OUTPUT_TOKENS,
        max_iterations=fields.get("max_iterations") or persona.max_iterations,
        loop_mode=fields.get("loop_mode"),
    )


def built_in_modules(permission: Permission, settings: Settings) -> frozenset[str] | None:
    """Return the modules that the built-in persona allows; None: all that the permission allows."""
    # No persona restricts the modules of guests here, so the setting does.
    return frozenset(settings.default_guest_modules) if permission == Permission.GUEST else None


def _built_in(permission: Permission, settings: Settings) -> ResolvedPersona:
    return ResolvedPersona(
        id=None,
        name="Parley",
        system_prompt=prompts().persona.system,
        allowed_modules=built_in_modules(permission, settings),
        model=None,
        max_output_tokens=DEFAULT_MAX_OUTPUT_TOKENS,
        max_iterations=settings.max_agent_iterations,
    )
