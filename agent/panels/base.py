"""What a panel is: `@panel` on an async function that lists somebody's things, with a second one that removes one."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from agent.commands.base import Request


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing of a person's: its id, and how it is shown."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Listed:
    """The first of a person's things; `more` says where the others are, empty when there are none."""

    entries: Sequence[Entry]
    more: str = ""


List = Callable[[Request], Awaitable[Listed]]
Remove = Callable[[Request], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Panel:
    """A person's own things of one kind.

    `list_entries` is asked for whoever looks; `remove` is given the id of an entry as the request's argument, looks up
    again whose it is, and returns a sentence. `verb` is what stands on the button.
    """

    name: str
    title: str
    verb: str
    empty: str
    list_entries: List
    remove: Remove


def panel(name: str, title: str, *, verb: str, empty: str, remove: Remove) -> Callable[[List], Panel]:
    """Mark an async function in a file of this folder as the list of a panel."""

    def mark(list_entries: List) -> Panel:
        return Panel(name, title, verb, empty=empty, list_entries=list_entries, remove=remove)

    return mark
