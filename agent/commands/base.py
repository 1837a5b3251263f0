"""The command type, and the decorator `@command` for an async function with typed parameters that returns the reply."""

import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from agent.app import App
from agent.commands.signature import Form, Run, split_word
from agent.people.participants import ResolvedUser, resolve_user, with_roles
from agent.people.pauses import PersonPaused
from shared.db.driver import Session
from shared.errors import Refusal
from shared.messages import Permission, Place, PlatformContext, ReplyFile, Sender

CONFIRM = re.compile(r"/confirm (\d{1,18})")


class CommandReply(Struct, frozen=True):
    """The reply to a command. `is_private`: shown only to the sender, if the platform supports that.

    `confirmation` is the number that confirms what the command would do: adapters with buttons show `choices`. `files`
    are for the sender alone. `is_secret`: it is worth something to whoever reads it, and stored nowhere.
    """

    text: str
    is_private: bool
    quit: bool = False
    confirmation: int | None = None
    files: tuple[ReplyFile, ...] = ()
    is_secret: bool = False

    @property
    def choices(self) -> tuple["CommandChoice", ...]:
        """Return the buttons below the reply."""
        return () if self.confirmation is None else to_choices(self.confirmation)


class CommandChoice(Struct, frozen=True):
    """A button below the reply to a command: a click gives the command `line`."""

    label: str
    line: str


def to_choices(confirmation: int) -> tuple[CommandChoice, ...]:
    """Return the buttons that confirm a command, and that drop it."""
    return CommandChoice("Yes, do it", f"/confirm {confirmation}"), CommandChoice("No", "/confirm no")


def find_confirmation(line: str) -> int | None:
    """Return the number that such a line confirms; None for any other."""
    match = CONFIRM.fullmatch(line)
    return int(match[1]) if match is not None else None


class Answered(Struct, frozen=True):
    """What a command answers, when it is more than text; see `CommandReply`."""

    text: str
    confirmation: int | None = None
    files: tuple[ReplyFile, ...] = ()
    is_secret: bool = False


class Request(Struct, frozen=True):
    """One use of a command or a panel; `adapter` is the one that it came by."""

    app: App
    sender: Sender
    place: Place
    user: ResolvedUser
    adapter: str = ""

    def require(self, permission: Permission) -> None:
        """Raise `Refusal` unless the user has at least this permission; a paused user is a guest here."""
        if self.user.permission >= permission and not self.user.may(permission):
            raise PersonPaused
        if self.user.permission < permission:
            raise Refusal(f"This needs the permission {permission.label}; yours is {self.user.permission.label}.")


async def open_request(
    session: Session, app: App, sender: Sender, *, place: Place, context: PlatformContext, adapter: str
) -> Request:
    """Return the request of this sender, with what the person may do in this place."""
    user = await resolve_user(session, sender)
    user = await with_roles(session, user, sender=sender, place=place, platform_context=context)
    return Request(app, sender, place, user=user, adapter=adapter)


class Command(Struct, frozen=True):
    """One command; `only_on` is the only platform that has it, None for all platforms.

    `hint` is what a person reads whose arguments are wrong, the usage line where it is empty. A command with
    subcommands is made without `forms`; each `@subcommand` adds one.
    """

    name: str
    summary: str
    forms: list[Form] = field(default_factory=list)
    hint: str = ""
    requires: Permission = Permission.GUEST
    is_private: bool = True
    quits: bool = False
    only_on: str | None = None

    def subcommand(
        self, word: str, *, is_default: bool = False, requires: Permission = Permission.GUEST
    ) -> Callable[[Run], Run]:
        """Mark an async function as what the command does with this word; the default one also does without it."""

        def mark(run: Run) -> Run:
            self.forms.append(Form.read(run, word=word, is_default=is_default, requires=requires))
            return run

        return mark

    @property
    def usage(self) -> str:
        """Return the usage line."""
        return f"/{self.name} {'|'.join(form.usage for form in self.forms)}".rstrip()

    @property
    def explanation(self) -> str:
        """Return the usage line with what the command is for, and a line for each of its subcommands."""
        lines = [f"/{self.name} {form.usage} - {form.summary}" for form in self.forms if form.word is not None]
        return "\n".join([f"{self.usage} - {self.summary}", *lines])

    @property
    def beginnings(self) -> list[str]:
        """Return the lines that completion offers: the command, and with each word that may stand behind it."""
        words = [word for form in self.forms for word in form.words]
        return [f"/{self.name}", *(f"/{self.name} {word}" for word in words)]

    def is_known_on(self, platform: str) -> bool:
        """Return whether the platform has this command."""
        return self.only_on in (None, platform)

    def parse(self, argument: str) -> tuple[Form, dict[str, Any]]:
        """Return what this text behind the command's name means; raises `Refusal` for arguments that don't fit."""
        word, rest = split_word(argument)
        form = self.find_form(word.lower())
        if form is None:
            raise self.refusal()
        try:
            return form, form.bind(argument if form.word is None or not word else rest)
        except ValueError as error:
            raise self.refusal(str(error)) from None

    def find_form(self, word: str) -> Form | None:
        """Return the form that a first word chooses, empty for none."""
        for form in self.forms:
            if form.word in (None, word) or (form.is_default and not word):
                return form
        return None

    def refusal(self, problem: str = "") -> Refusal:
        """Return the refusal of wrong arguments: the hint, else what is wrong and the usage line."""
        return Refusal(self.hint or f"{problem} Write {self.usage}.".lstrip())

    async def run(self, request: Request, argument: str) -> "str | Answered":
        """Do what this text behind the command's name asks for; raises `Refusal` for arguments that don't fit."""
        request.require(self.requires)
        form, values = self.parse(argument)
        request.require(form.requires)
        reply: str | Answered = await form.run(request, **values)
        return reply


def command(
    name: str,
    *,
    hint: str = "",
    requires: Permission = Permission.GUEST,
    is_private: bool = True,
    quits: bool = False,
    only_on: str | None = None,
) -> Callable[[Run], Command]:
    """Mark an async function in a file of this folder as a command; its signature says what may stand behind it.

    The docstring's first line is the summary. `signature.py` says what the parameters may be.
    """

    def mark(run: Run) -> Command:
        form = Form.read(run)
        return Command(
            name,
            form.summary,
            [form],
            hint=hint,
            requires=requires,
            is_private=is_private,
            quits=quits,
            only_on=only_on,
        )

    return mark
