"""The acts of admins that have a form in chats: what each asks for, and the function of the database that does it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from agent.commands.base import Request
from agent.commands.forms.base import CHANNEL, MOST_OPTIONS, PERSON, Field, Option
from agent.commands.forms.changes import VERBS, undo
from agent.commands.forms.entries import Form
from shared.db.driver import Session
from shared.db.statements import Statement, load_statements
from shared.errors import Refusal
from shared.messages import Permission

statements = load_statements(__file__)

Build = Callable[[Session, Request], Awaitable[Sequence[Field]]]
Do = Callable[[Session, Request, Form], Awaitable[str]]

MODES = (
    ("", "as around it"),
    ("mention", "when it is called"),
    ("always", "to every message"),
    ("off", "never"),
)
PAUSES = (
    ("person", "Pause the person"),
    ("resume", "Answer the person again"),
    ("server", "Pause this whole server"),
    ("resume_server", "Answer on this server again"),
)
SCOPES = ((CHANNEL, "This channel"), ("server", "This server"), (PERSON, "The person"))
PERIODS = (("month", "Each month"), ("day", "Each day"))
# The longest name that every platform takes as a value in a list.
VALUE_CHARS = 90
MOST_DAYS = 3660

NO_SERVER = "Do this on the server that it is about, or choose the person."
NO_PERSON = "Choose the person."
NO_CHOICE = "Choose one of what the list has."
NO_CHANNEL = "Choose the channel."
NEVER_WRITTEN = "This person has never written to me, so there is nothing to change yet."
NO_DAYS = "Say for how many days."
NO_GRANT = "Choose a permission, or write how many tokens more."
NO_CHANGE = "There is no change of yours to take back."


class Act(Struct, frozen=True):
    """One form: the label of its button, its title, its fields, and what it does."""

    label: str
    title: str
    build: Build
    do: Do


async def call(session: Session, statement: Statement, **parameters: Any) -> str:
    """Return the sentence of a function."""
    return str((await session.execute(statement, parameters)).scalar_one())


def to_options(pairs: Sequence[tuple[str, str]]) -> list[Option]:
    """Return options made of values and labels."""
    return [Option(value, label[:1].upper() + label[1:]) for value, label in pairs]


def read_choice(form: Form, name: str, pairs: Sequence[tuple[str, str]]) -> str:
    """Return the value that was chosen; raises `Refusal` for one that the list does not have."""
    if form.text(name) not in dict(pairs):
        raise Refusal(NO_CHOICE, field=name)
    return form.text(name)


def require_server(request: Request) -> dict[str, str]:
    """Return the server of the place; raises `Refusal` in a direct message on a platform that has servers."""
    if request.place.server is None:
        raise Refusal(NO_SERVER)
    return {"platform": request.place.platform, "server": request.place.server}


def read_channel(request: Request, form: Form) -> dict[str, str]:
    """Return the channel of a form, with its server."""
    if not form.text(CHANNEL):
        raise Refusal(NO_CHANNEL, field=CHANNEL)
    return require_server(request) | {"channel": form.text(CHANNEL)}


async def find_person(session: Session, request: Request, form: Form) -> tuple[int, dict[str, str]]:
    """Return the person of a form, by their account: never by a name, which anybody may take."""
    if not form.text(PERSON):
        raise Refusal(NO_PERSON, field=PERSON)
    account = {"platform": request.place.platform, "account": form.text(PERSON)}
    user_id = (await session.execute(statements.find_account, account)).scalar_one_or_none()
    if user_id is None:
        raise Refusal(NEVER_WRITTEN, field=PERSON)
    return user_id, account


def read_end(request: Request, form: Form) -> datetime | None:
    """Return when what a form gives ends, None if it says no number of days."""
    days = form.number("days")
    if days is None:
        return None
    if not 1 <= days <= MOST_DAYS:
        raise Refusal(f"Write a number of days between 1 and {MOST_DAYS:,}.", field="days")
    return request.app.clock.now() + timedelta(days=days)


async def is_admin_everywhere(session: Session, request: Request) -> bool:
    """Return whether this person is more than admin by a role, who sees what is of the server or their own."""
    permission = (await session.execute(statements.read_own_permission, {"user_id": request.user.id})).scalar_one()
    return Permission.from_label(permission) >= Permission.ADMIN


async def build_pause(_session: Session, _request: Request) -> Sequence[Field]:
    """Return the fields of a pause."""
    return (
        Field("what", "What to do", options=to_options(PAUSES), is_required=True, value="person"),
        Field(PERSON, "The person"),
    )


async def pause(session: Session, request: Request, form: Form) -> str:
    """Pause a person or the server, or end a pause."""
    what = read_choice(form, "what", PAUSES)
    if what in ("server", "resume_server"):
        statement = statements.pause_server if what == "server" else statements.resume_server
        return await call(session, statement, **require_server(request))
    _, account = await find_person(session, request, form)
    return await call(session, statements.resume_person if what == "resume" else statements.pause_person, **account)


async def build_limit(_session: Session, request: Request) -> Sequence[Field]:
    """Return the fields of a limit."""
    scopes = SCOPES if request.place.server is not None else SCOPES[2:]
    return (
        Field("scope", "Whose limit", options=to_options(scopes), is_required=True, value=scopes[0][0]),
        Field(PERSON, "The person, for the limit of a person"),
        Field("tokens", "Tokens; with no dollars either: no limit"),
        Field("dollars", "Dollars"),
        Field("period", "It renews", options=to_options(PERIODS), is_required=True, value="month"),
    )


async def set_limit(session: Session, request: Request, form: Form) -> str:
    """Set or lift the limit of a person, the channel or the server."""
    scope = read_choice(form, "scope", SCOPES)
    whose: dict[str, str | None] = {"account": None, "server": None, "channel": None}
    if scope == PERSON:
        whose |= (await find_person(session, request, form))[1]
    else:
        whose |= require_server(request) | ({"channel": request.place.channel} if scope == CHANNEL else {})
    limit = {"tokens": form.number("tokens"), "dollars": form.amount("dollars"), "period": form.text("period")}
    return await call(session, statements.set_limit, kind=scope, **whose, **limit)


async def build_grant(_session: Session, _request: Request) -> Sequence[Field]:
    """Return the fields of a grant."""
    levels = [(permission.label, permission.label) for permission in Permission]
    return (
        Field(PERSON, "The person", is_required=True),
        Field("permission", "Permission; none chosen: as it is", options=to_options(levels)),
        Field("tokens", "Tokens on top of the person's own budget"),
        Field("days", "For how many days; empty: a permission stays"),
    )


async def grant(session: Session, request: Request, form: Form) -> str:
    """Give a person a permission, more tokens, or both."""
    user_id, account = await find_person(session, request, form)
    permission, tokens, until = form.optional("permission"), form.number("tokens"), read_end(request, form)
    sentences = []
    if permission is not None:
        parameters = account | {"permission": permission, "until": until}
        sentences.append(await call(session, statements.grant_permission, **parameters))
    if tokens is not None:
        if until is None:
            raise Refusal(NO_DAYS, field="days")
        sentences.append(await call(session, statements.grant_more, user_id=user_id, until=until, tokens=tokens))
    if not sentences:
        raise Refusal(NO_GRANT, field="permission")
    return "; ".join(sentences)


async def build_mode(session: Session, request: Request) -> Sequence[Field]:
    """Return the fields of a mode, which begin with that of the channel."""
    place = require_server(request) | {"channel": request.place.channel}
    own = (await session.execute(statements.find_own, place)).one()
    return (
        Field(CHANNEL, "The channel", is_required=True, value=request.place.channel),
        Field("mode", "When it answers there", options=to_options(MODES), is_required=True, value=own.mode or ""),
    )


async def set_mode(session: Session, request: Request, form: Form) -> str:
    """Set when a channel is answered."""
    place = read_channel(request, form)
    return await call(session, statements.set_mode, **place, mode=form.optional("mode"))


async def build_persona(session: Session, request: Request) -> Sequence[Field]:
    """Return the fields of a persona, which begin with the channel's own."""
    place = require_server(request) | {"channel": request.place.channel}
    own = (await session.execute(statements.find_own, place)).one()
    parameters = place | {"is_everywhere": await is_admin_everywhere(session, request), "limit": MOST_OPTIONS}
    names = list((await session.execute(statements.list_personas, parameters)).scalars())
    channel = Field(CHANNEL, "The channel", is_required=True, value=request.place.channel)
    if len(names) == MOST_OPTIONS or any(len(name) > VALUE_CHARS for name in names):
        return channel, Field("persona", "The persona's name; empty: none of its own", value=own.persona)
    options = [Option("", "None of its own"), *(Option(name, name) for name in names)]
    return channel, Field("persona", "Who answers there", options=options, is_required=True, value=own.persona or "")


async def bind_persona(session: Session, request: Request, form: Form) -> str:
    """Let a persona answer in a channel, or none of its own."""
    place = read_channel(request, form)
    return await call(session, statements.bind_persona, **place, persona=form.optional("persona"))


async def build_undo(session: Session, request: Request) -> Sequence[Field]:
    """Return the field with the latest changes that can be taken back."""
    is_everywhere = await is_admin_everywhere(session, request)
    own_account = f"{request.sender.platform}:{request.sender.platform_user_id}"
    parameters = {"account": None if is_everywhere else own_account, "limit": MOST_OPTIONS}
    rows = (await session.execute(statements.list_entries, parameters)).all()
    if not rows:
        raise Refusal(NO_CHANGE)
    options = []
    for row in rows:
        table = row.table.replace("_", " ")
        what = f"{row.name} ({table})" if row.name else f"one of {table}"
        who = "you" if row.who == own_account else row.who
        options.append(Option(str(row.id), f"{row.id} by {who}: {VERBS[row.action]} {what}", detail=row.columns or ""))
    label = "The change to take back"
    if len(rows) == MOST_OPTIONS:
        label += f" (the latest {MOST_OPTIONS})"
    return (Field("entry", label, options=options, is_required=True, value=options[0].value),)


async def take_back(session: Session, _request: Request, form: Form) -> str:
    """Take back the change."""
    entry = form.number("entry")
    if entry is None:
        raise Refusal(NO_CHANGE)
    return await undo(session, entry)


ACTS: Mapping[str, Act] = {
    "pause": Act("Pause", "Pause, or end a pause", build_pause, do=pause),
    "limit": Act("Limit", "Set a limit", build_limit, do=set_limit),
    "grant": Act("Grant", "Grant rights or tokens", build_grant, do=grant),
    "mode": Act("Channel mode", "When it answers", build_mode, do=set_mode),
    "persona": Act("Persona", "Who answers in a channel", build_persona, do=bind_persona),
    "undo": Act("Undo", "Take back a change", build_undo, do=take_back),
}
