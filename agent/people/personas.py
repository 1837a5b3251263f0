"""Personas: finds the most specific persona for a place, or uses the built-in one."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

from sqlalchemy import and_, bindparam, case, or_, select

from agent.people.skills import STORED, ListedSkill, to_skills
from agent.prompts import prompts
from shared.db.driver import Session
from shared.messages import Place
from shared.models import Persona
from shared.permissions import Permission
from shared.settings import Settings

LoopMode = Literal["native", "planner"]


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
class ResolvedPersona:
    """The fields of a persona that a turn needs.

    `allowed_modules` None: all modules that the permission allows. `loop_mode` None: `choose_mode` decides. `skills`
    are the names that the persona lists, `stored_skills` those of them that are rows of the table.
    """

    id: int | None
    name: str
    system_prompt: str
    allowed_modules: frozenset[str] | None
    model: str | None
    max_output_tokens: int
    max_iterations: int
    loop_mode: LoopMode | None = None
    skills: tuple[str, ...] = ()
    stored_skills: tuple[ListedSkill, ...] = ()


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
)
HERE = and_(
    Persona.platform == bindparam("platform"),
    or_(Persona.platform_server_id.is_(None), Persona.platform_server_id == bindparam("server")),
    or_(Persona.platform_channel_id.is_(None), Persona.platform_channel_id == bindparam("channel")),
)
CLOSENESS = case(
    (and_(HERE, Persona.platform_channel_id.is_not(None)), 3),
    (and_(HERE, Persona.platform_server_id.is_not(None)), 2),
    (HERE, 1),
    else_=0,
)
# Built once, because building the statements takes longer than running them.
BY_ID = select(*COLUMNS).where(Persona.id == bindparam("id"))
CLOSEST = select(*COLUMNS).where(or_(HERE, Persona.is_default)).order_by(CLOSENESS.desc(), Persona.id).limit(1)


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
        skills=tuple(row.skills or ()),
        stored_skills=to_skills(row.stored_skills),
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
