"""What a form asks for; each platform shows it in its own way."""

from collections.abc import Sequence

from msgspec import Struct

from shared.messages import Place, PlatformContext, Sender

# The fields that platforms have pickers for: their values are an account and the id of a channel.
PERSON, CHANNEL = "person", "channel"
# Platforms show no more in one list.
MOST_OPTIONS = 25


class Option(Struct, frozen=True):
    """One of the values that a field may have; the value may be empty. `detail` is shown smaller below the label."""

    value: str
    label: str
    detail: str = ""


class Field(Struct, frozen=True):
    """One field, which begins with `value`: with `options` a choice, a picker where it is called PERSON or CHANNEL."""

    name: str
    label: str
    options: Sequence[Option] = ()
    is_required: bool = False
    value: str | None = None


class OpenForm(Struct, frozen=True):
    """A form as somebody is shown it."""

    name: str
    title: str
    fields: Sequence[Field]


class Asker(Struct, frozen=True):
    """Who asks for a form or sends one, and where."""

    sender: Sender
    place: Place
    context: PlatformContext


class Done(Struct, frozen=True):
    """What a form has done; `entries` are those of the log of changes, which take it back."""

    text: str
    entries: tuple[int, ...] = ()
