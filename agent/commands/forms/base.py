"""What a form asks for; each platform shows it in its own way."""

from collections.abc import Sequence
from dataclasses import dataclass

from shared.messages import Place, PlatformContext, Sender

# The fields that platforms have pickers for: their values are an account and the id of a channel.
PERSON, CHANNEL = "person", "channel"
# Platforms show no more in one list.
MOST_OPTIONS = 25


@dataclass(frozen=True, slots=True)
class Option:
    """One of the values that a field may have; the value may be empty. `detail` is shown smaller below the label."""

    value: str
    label: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Field:
    """One field, which begins with `value`: with `options` a choice, a picker where it is called PERSON or CHANNEL."""

    name: str
    label: str
    options: Sequence[Option] = ()
    is_required: bool = False
    value: str | None = None


@dataclass(frozen=True, slots=True)
class OpenForm:
    """A form as somebody is shown it."""

    name: str
    title: str
    fields: Sequence[Field]


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks for a form or sends one, and where."""

    sender: Sender
    place: Place
    context: PlatformContext


@dataclass(frozen=True, slots=True)
class Done:
    """What a form has done; `entries` are those of the log of changes, which take it back."""

    text: str
    entries: tuple[int, ...] = ()
