"""The command type, and the decorator `@command` for an async function that returns the reply."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import getdoc

from agent.app import App
from agent.people.participants import ResolvedUser
from agent.people.pauses import PersonPaused
from shared.errors import Refusal
from shared.messages import Place, ReplyFile, Sender
from shared.permissions import Permission


@dataclass(frozen=True, slots=True)
class CommandReply:
    """The reply to a command. `is_private`: shown only to the sender, if the platform supports that.

    `confirmation` is the number that confirms what the command would do: adapters with buttons show `choices`. `files`
    are for the sender alone.
    """

    text: str
    is_private: bool
    quit: bool = False
    confirmation: int | None = None
    files: tuple[ReplyFile, ...] = ()

    @property
    def choices(self) -> tuple["CommandChoice", ...]:
        """Return the buttons below the reply."""
        return () if self.confirmation is None else to_choices(self.confirmation)


@dataclass(frozen=True, slots=True)
class CommandChoice:
    """A button below the reply to a command: a click gives the command `line`."""

    label: str
    line: str


def to_choices(confirmation: int) -> tuple[CommandChoice, ...]:
    """Return the buttons that confirm a command, and that drop it."""
    return CommandChoice("Yes, do it", f"/confirm {confirmation}"), CommandChoice("No", "/confirm no")


@dataclass(frozen=True, slots=True)
class Answered:
    """What a command answers, when it is more than text; see `CommandReply`."""

    text: str
    confirmation: int | None = None
    files: tuple[ReplyFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """One use of a command; `argument` is the text after the command's name, `adapter` the one that it came by."""

    app: App
    sender: Sender
    place: Place
    user: ResolvedUser
    argument: str
    adapter: str = ""

    @property
    def words(self) -> list[str]:
        """Return the argument, split at whitespace."""
        return self.argument.split()

    def require(self, permission: Permission) -> None:
        """Raise `Refusal` unless the user has at least this permission; a paused user is a guest here."""
        if self.user.permission >= permission and not self.user.may(permission):
            raise PersonPaused
        if self.user.permission < permission:
            raise Refusal(f"This needs the permission {permission.label}; yours is {self.user.permission.label}.")


Run = Callable[[Request], Awaitable[str | Answered]]


@dataclass(frozen=True, slots=True)
class Command:
    """One command; `only_on` is the only platform that has it, None for all platforms."""

    run: Run
    usage: str
    summary: str
    requires: Permission = Permission.GUEST
    is_private: bool = True
    quits: bool = False
    only_on: str | None = None

    @property
    def name(self) -> str:
        """Return the command's name without the slash."""
        return self.usage.split()[0].removeprefix("/")

    def is_known_on(self, platform: str) -> bool:
        """Return whether the platform has this command."""
        return self.only_on in (None, platform)


def command(
    usage: str,
    *,
    requires: Permission = Permission.GUEST,
    is_private: bool = True,
    quits: bool = False,
    only_on: str | None = None,
) -> Callable[[Run], Command]:
    """Mark an async function in a file of this folder as a command; its docstring's first line is the summary."""

    def mark(run: Run) -> Command:
        summary = (getdoc(run) or "").partition("\n")[0]
        return Command(run, usage, summary, requires=requires, is_private=is_private, quits=quits, only_on=only_on)

    return mark
