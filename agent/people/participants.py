"""The participants of a turn: the user of an identity, the persona and the conversation of a place."""

from collections.abc import Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from agent.people.module_rules import ModuleRules, to_module_rules
from agent.prompts import prompts
from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.messages import Caller, IncomingMessage, Permission, Place, PlatformContext, Sender
from shared.settings import Settings

statements = load_statements(__file__)

LoopMode = Literal["native", "planner"]
# Why a persona answers: it belongs to the channel, server or platform, it is the default, or there is none of these; or
# the turn is that of an agent, or who asked has chosen it.
ChosenBy = Literal["channel", "server", "platform", "default", "built_in", "agent", "request"]

DEFAULT_MAX_OUTPUT_TOKENS = 2048


class ListedSkill(Struct, frozen=True):
    """A skill as the prompt shows it."""

    name: str
    description: str


class PersonaSkills(Struct, frozen=True):
    """The skills of a persona: the names that it lists, and those of them that are rows of the table."""

    names: tuple[str, ...] = ()
    stored: tuple[ListedSkill, ...] = ()


NO_SKILLS = PersonaSkills()


class ListedAgent(Struct, frozen=True):
    """A listed agent; `requires` is the permission to use it. `persona_id` is None for a remote agent with a URL.

    `peers` are the names of the agents that it may ask, None: all. `is_scripted`: it answers by a script of its own.
    """

    name: str
    description: str
    requires: Permission
    persona_id: int | None
    peers: frozenset[str] | None = None
    is_scripted: bool = False


class ResolvedUser(Struct, frozen=True):
    """The fields of a user that a turn needs."""

    id: int
    permission: Permission
    name: str
    time_zone: str
    week_start: str
    has_memories: bool = False
    is_paused: bool = False

    def may(self, permission: Permission) -> bool:
        """Return whether the user may decide what needs this permission; a paused one decides nothing for others."""
        return self.permission >= permission and not (self.is_paused and permission > Permission.GUEST)

    def as_caller(self) -> Caller:
        """Return the fields of the user that tools may see."""
        return Caller(
            id=self.id,
            permission=self.permission,
            name=self.name,
            time_zone=self.time_zone,
            week_start=self.week_start,
        )


class Choice(Struct, frozen=True):
    """Which version of a persona answers, a row of `persona_versions`, and why it; the built-in one has no versions."""

    by: ChosenBy = "built_in"
    version_id: int | None = None


BUILT_IN = Choice()


class ResolvedPersona(Struct, frozen=True):
    """The fields of a persona that a turn needs.

    `allowed_modules` None: all modules that the permission allows. `max_temperature` is the highest that a program may
    ask for; None: any. `loop_mode` None: `choose_mode` decides.
    """

    id: int | None
    name: str
    system_prompt: str
    allowed_modules: frozenset[str] | None
    model: str | None
    max_output_tokens: int
    max_iterations: int
    max_temperature: float | None = None
    loop_mode: LoopMode | None = None
    skills: PersonaSkills = NO_SKILLS
    choice: Choice = BUILT_IN

    @property
    def models(self) -> tuple[str, ...]:
        """Return the models to try before those of the settings."""
        return (self.model,) if self.model else ()


class ResolvedConversation(Struct, frozen=True):
    """The fields of a conversation that a turn needs.

    `is_new`: it was made just now. `summary` holds what was said up to `summarized_turn_id`. That of a direct
    conversation is shown only to the person whose turns it holds. `has_memories` is set for a person without memories
    of their own.
    """

    id: int
    place: Place
    summary: str | None
    window_turn_id: int
    summarized_turn_id: int = 0
    is_new: bool = False
    has_memories: bool = False


class Participants(Struct, frozen=True):
    """The participants of a turn; `turn_id` is its id, drawn for a new one.

    `agents` are the enabled agents of this installation, `modules` what admins have said of its modules.
    """

    user: ResolvedUser
    persona: ResolvedPersona
    conversation: ResolvedConversation
    turn_id: int
    agents: tuple[ListedAgent, ...]
    is_server_paused: bool = False
    modules: ModuleRules = field(default_factory=dict)

    @property
    def is_paused(self) -> bool:
        """Return whether an admin has paused the person or the server."""
        return self.user.is_paused or self.is_server_paused

    @property
    def have_memories(self) -> bool:
        """Return whether anything is remembered of the person or of the place; else a search would be for nothing."""
        return self.user.has_memories or self.conversation.has_memories


async def to_participants(
    session: Session, found: Mapping[str, Any], message: IncomingMessage, settings: Settings
) -> Participants:
    """Return the participants of a message from those that `parley_prepare_turn` has found."""
    sender, place = message.sender, message.place
    row, persona = SimpleNamespace(**found["user"]), found["persona"]
    await note_username(session, row, sender)
    user = to_user(row, sender)
    # Most people never have a role that counts: they need no second statement.
    if message.platform_context.role_ids or row.has_roles:
        user = await with_roles(session, user, sender=sender, place=place, platform_context=message.platform_context)
    conversation = replace(
        to_conversation(SimpleNamespace(**found["conversation"]), place, user.id),
        has_memories=found["place_has_memories"],
    )
    if message.is_anonymous:
        # All who are not named share an account, but nothing that is remembered.
        user, conversation = replace(user, has_memories=False), replace(conversation, has_memories=False)
    resolved = to_persona(SimpleNamespace(**persona) if persona else None, user.permission, settings)
    if found["model"] in settings.llm_models:
        resolved = replace(resolved, model=found["model"])
    return Participants(
        user=user,
        persona=resolved,
        conversation=conversation,
        turn_id=found["turn_id"],
        agents=to_agents(found["agents"]) if found["agents"] else (),
        is_server_paused=found["is_server_paused"],
        modules=to_module_rules(found["modules"]) if found["modules"] else {},
    )


class Rights(Struct, frozen=True):
    """A user's permission and the modules that the persona allows; `has_persona` is False for the built-in one.

    `modules` is what admins have said of modules.
    """

    permission: Permission
    has_persona: bool
    allowed_modules: Collection[str] | None
    modules: ModuleRules


def to_user(row: Any, sender: Sender) -> ResolvedUser:
    """Return the user from a row of `find_user`."""
    # The database names people as their account is called, which may have been renamed since.
    chosen = row.display_name if row.display_name != row.platform_username else None
    name = chosen or sender.username or row.platform_username or sender.platform_user_id
    permission = Permission.from_label(row.permission_level)
    return ResolvedUser(
        id=row.id,
        permission=permission,
        name=name,
        time_zone=row.time_zone,
        week_start=row.week_start,
        has_memories=row.has_memories,
        is_paused=row.is_paused,
    )


def to_persona(row: Any, permission: Permission, settings: Settings) -> ResolvedPersona:
    """Return the persona from a row of `find_persona`; the built-in one if the row is None."""
    if row is None:
        return ResolvedPersona(
            id=None,
            name="Parley",
            system_prompt=prompts().persona.system,
            allowed_modules=built_in_modules(permission, settings),
            model=None,
            max_output_tokens=DEFAULT_MAX_OUTPUT_TOKENS,
            max_iterations=settings.max_agent_iterations,
        )
    return ResolvedPersona(
        id=row.id,
        name=row.name,
        system_prompt=row.system_prompt,
        allowed_modules=None if row.allowed_modules is None else frozenset(row.allowed_modules),
        model=row.default_model,
        max_output_tokens=row.max_tokens_per_request or DEFAULT_MAX_OUTPUT_TOKENS,
        max_iterations=row.max_iterations or settings.max_agent_iterations,
        max_temperature=row.max_temperature,
        loop_mode=row.loop_mode,
        skills=to_skills(row.skills, row.stored_skills),
        choice=Choice(row.chosen_by or "agent", row.version_id),
    )


def built_in_modules(permission: Permission, settings: Settings) -> frozenset[str] | None:
    """Return the modules that the built-in persona allows; None: all that the permission allows."""
    # No persona restricts the modules of guests here, so the setting does.
    return frozenset(settings.default_guest_modules) if permission == Permission.GUEST else None


def to_conversation(row: Any, place: Place, user_id: int) -> ResolvedConversation:
    """Return the conversation from a row of `resolve_conversation`, as this user may see it."""
    if place.is_direct and row.owner_id != user_id:
        return ResolvedConversation(row.id, place, summary=None, window_turn_id=row.window_turn_id)
    return ResolvedConversation(
        row.id,
        place,
        summary=row.summary,
        window_turn_id=row.window_turn_id,
        summarized_turn_id=row.summarized_turn_id,
        is_new=row.is_new,
    )


async def find_user(session: Session, sender: Sender) -> ResolvedUser | None:
    """Return the user of this identity and store a changed username; None if the identity is unknown."""
    parameters = {"sender_platform": sender.platform, "platform_user_id": sender.platform_user_id}
    row = (await session.execute(statements.find_user, parameters)).one_or_none()
    if row is None:
        return None
    await note_username(session, row, sender)
    return to_user(row, sender)


async def note_username(session: Session, row: Any, sender: Sender) -> None:
    """Store the person's current username on the platform if it has changed."""
    if sender.username and sender.username != row.platform_username:
        await session.execute(statements.rename_account, {"link_id": row.link_id, "username": sender.username})


async def resolve_user(session: Session, sender: Sender) -> ResolvedUser:
    """Return the user of this identity; a new user is created as a guest."""
    user = await find_user(session, sender)
    if user is not None:
        return user
    parameters = {
        "platform": sender.platform,
        "account": sender.platform_user_id,
        "username": sender.username,
    }
    await session.execute(statements.make_user, parameters)
    user = await find_user(session, sender)
    if user is None:
        raise RuntimeError("a user that was just created is missing")
    return user


async def with_roles(
    session: Session, user: ResolvedUser, *, sender: Sender, place: Place, platform_context: PlatformContext
) -> ResolvedUser:
    """Return the user with the highest permission that the roles on this server grant; also stores their budget."""
    if platform_context.role_ids is None or place.server is None:
        return user
    parameters = {
        "platform": sender.platform,
        "platform_user_id": sender.platform_user_id,
        "server": place.server,
        "user_id": user.id,
        "roles": list(platform_context.role_ids),
    }
    rows = (await session.execute(statements.store_roles, parameters)).all()
    permissions = [Permission.from_label(row.permission) for row in rows]
    return replace(user, permission=max([user.permission, *permissions]))


async def resolve_conversation(
    session: Session, user_id: int, persona_id: int | None, place: Place
) -> ResolvedConversation:
    """Return the conversation of a place, created if there is none; sets its last activity to now."""
    parameters = {**asdict(place), "user_id": user_id, "persona_id": persona_id}
    return to_conversation((await session.execute(statements.resolve_conversation, parameters)).one(), place, user_id)


def to_rights(row: Any) -> Rights:
    """Return the rights from a row of `parley_rights`."""
    # The user may have been deleted while the turn runs.
    labels = [row.permission_level or Permission.GUEST.label, *(row.granted or ())]
    return Rights(
        max(map(Permission.from_label, labels)),
        bool(row.has_persona),
        row.allowed_modules,
        modules=to_module_rules(row.modules) if row.modules else {},
    )


def to_skills(names: Sequence[str] | None, rows: Sequence[Sequence[str]] | None) -> PersonaSkills:
    """Return the skills from the columns `skills` and `stored_skills` of a persona."""
    return PersonaSkills(tuple(names or ()), tuple(ListedSkill(*row) for row in rows or ()))


def to_agents(rows: Sequence[Sequence[Any]] | None) -> tuple[ListedAgent, ...]:
    """Return the agents of the column `agents`, which is None if none is enabled."""
    return tuple(
        ListedAgent(
            name,
            description,
            requires=Permission.from_label(label),
            persona_id=persona_id,
            peers=None if peers is None else frozenset(peers),
            is_scripted=is_scripted,
        )
        for name, description, label, persona_id, peers, is_scripted in rows or ()
    )
