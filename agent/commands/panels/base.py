"""The panel type, and the decorator `@panel` for an async function that lists entries; a second one removes one."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from msgspec import Struct

from agent.commands.base import Request


class Entry(Struct, frozen=True):
    """One entry of a panel: its id and its text."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Listed:
    """The first entries of a panel; `more` is a text that says where to find the others, empty if there are none."""

    entries: Sequence[Entry]
    more: str = ""


List = Callable[[Request], Awaitable[Listed]]
Remove = Callable[[Request, str], Awaitable[str]]


class Panel(Struct, frozen=True):
    """A list of a user's own things of one kind, such as memories.

    `list_entries` returns the entries of the requesting user. `remove` gets the id of an entry, must check that it
    belongs to that user, and returns the text of the reply. `verb` is the button's label.
    """

    name: str
    title: str
    verb: str
    empty: str
    list_entries: List
    remove: Remove


def panel(name: str, title: str, *, verb: str, empty: str, remove: Remove) -> Callable[[List], Panel]:
    """Return the decorator that makes an async function in a module of this package the `list_entries` of a panel."""

    def mark(list_entries: List) -> Panel:
        return Panel(name, title, verb, empty=empty, list_entries=list_entries, remove=remove)

    return mark
