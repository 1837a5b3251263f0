"""Forms for admins in chats, on every platform: the ids of their buttons, and what stands below what they have done.

An id contains everything, so any process can handle a click or a form. It belongs to the person who asked; what that
person may is looked up again each time.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

from msgspec import Struct

from adapters.chat.clicks import NOT_YOURS
from shared.errors import Refusal
from shared.text import clean, to_id

if TYPE_CHECKING:
    from agent.commands.forms.acts import Act
    from agent.commands.forms.base import Done

MARK = "parley-form"
# The id of a view, where the platform wants one that is the same for all forms.
VIEW = "parley_act"
OPEN, SEND, BACK = STEPS = "open", "send", "back"
MENU = "What would you like to do? Each opens a form that only you see."
GONE = "I don't know any more what to take back; the form Undo of /admin lists it."
BACK_LABEL, AGAIN_LABEL = "Take it back", "Change it"
MOST_ID_CHARS, MOST_ENTRIES = 100, 10
# Before each value in a list: platforms take no empty ones.
VALUE = "="


class FormId(Struct, frozen=True):
    """What a button or a form is for: to open the form `name`, to send it, or to take back what one has done.

    `rest`: what the form begins with, where or by what it was opened, or the entries to take back.
    """

    step: str
    name: str
    asker: str
    rest: str = ""

    def to_id(self) -> str:
        """Return the id."""
        return "|".join((MARK, self.step, self.name, self.asker, self.rest))

    @property
    def values(self) -> Mapping[str, str]:
        """Return what the form begins with."""
        return dict(parse_qsl(self.rest, keep_blank_values=True))

    @property
    def entries(self) -> list[int]:
        """Return the entries to take back; raises `Refusal` where the id was not ours."""
        entries = [to_id(number) for number in self.rest.split(",")[:MOST_ENTRIES]]
        if None in entries:
            raise Refusal(GONE)
        return [entry for entry in entries if entry is not None]

    def check(self, account: str, *steps: str) -> None:
        """Make sure that this is one of these steps, by the person whose it is; raises `Refusal`."""
        if account != self.asker or self.step not in steps:
            raise Refusal(NOT_YOURS.format(asker=f"<@{self.asker.rpartition(':')[2]}>"))


def find_form_id(custom_id: str) -> FormId | None:
    """Return what an id is for; None if it is not one of ours."""
    mark, _, parts = custom_id.partition("|")
    fields = parts.split("|", 3)
    if mark != MARK or len(fields) != 4 or fields[0] not in STEPS:
        return None
    return FormId(fields[0], fields[1], fields[2], rest=fields[3])


def menu_buttons(acts: Mapping[str, "Act"], asker: str) -> list[tuple[FormId, str]]:
    """Return the buttons that open the forms of these acts, with their labels."""
    return [(FormId(OPEN, name, asker), act.label) for name, act in acts.items()]


def below_done(done: "Done", asker: str, where: str = "") -> list[tuple[FormId, str]]:
    """Return the button that takes back what was done `where`, if it has changed anything."""
    button = FormId(BACK, where, asker, rest=",".join(map(str, done.entries)))
    is_whole = 0 < len(done.entries) <= MOST_ENTRIES and len(button.to_id()) <= MOST_ID_CHARS
    return [(button, BACK_LABEL)] if is_whole else []


def below_refused(name: str, asker: str, values: Mapping[str, str]) -> list[tuple[FormId, str]]:
    """Return the button that opens the form again, with what was entered as far as it fits into the id."""
    button = FormId(OPEN, name, asker)
    for key, value in values.items():
        longer = FormId(OPEN, name, asker, rest=urlencode(dict(button.values) | {key: clean(value)}))
        button = longer if len(longer.to_id()) <= MOST_ID_CHARS else button
    return [(button, AGAIN_LABEL)]
