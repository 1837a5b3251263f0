"""A command's arguments, read from the parameters of its function as `@tool` reads those of a tool.

The first parameter is the `Request`. A parameter takes one word of the line, `Text` the rest of it; what it may be, its
annotation says, as pydantic reads it: `int`, `date`, `Literal[...]`, `Annotated[float, Field(le=100)]`, a union of
them. One with a default may be left out. `*_: str` takes all further words, which are ignored. Usage line, options of
a slash command and completion all follow from it.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, get_type_hints

from msgspec import Struct
from pydantic import BeforeValidator, TypeAdapter, ValidationError

from shared.messages import Permission
from shared.text import to_id

Json = dict[str, Any]
MOST_SHOWN_CHARS = 20


class Keyword(Struct, frozen=True):
    """Marks a parameter whose value is typed behind this word: `Keyword("set")` for `/persona set NAME`."""

    word: str


# Marks a parameter that takes the rest of the line, and one that neither the usage line nor a form shows.
REST_OF_LINE, HIDDEN = object(), object()
Text = Annotated[str, REST_OF_LINE]


# The id of a row, with or without the # that it is shown with.
Id = Annotated[int, BeforeValidator(lambda word: to_id(str(word).removeprefix("#")))]


class Parameter(Struct, frozen=True):
    """One argument; `keyword` is the word in front of it, `variants` are the JSON schemas of what it may be.

    The name of the function's own parameter may end with `_`, where it would hide another one.
    """

    variable: str
    description: str
    variants: tuple[Json, ...]
    type: TypeAdapter[Any]
    is_required: bool
    takes_rest: bool
    is_hidden: bool
    keyword: str | None

    @classmethod
    def read(cls, parameter: inspect.Parameter, annotation: Any) -> "Parameter":
        """Read a parameter of a command's function with this annotation."""
        marks = getattr(annotation, "__metadata__", ())
        type_adapter: TypeAdapter[Any] = TypeAdapter(annotation)
        schema = type_adapter.json_schema()
        variants = [variant for variant in schema.get("anyOf", [schema]) if variant.get("type") != "null"]
        return cls(
            parameter.name,
            description=schema.get("description", parameter.name.strip("_").replace("_", " ").capitalize()),
            variants=tuple(variants),
            type=type_adapter,
            is_required=parameter.default is parameter.empty,
            takes_rest=REST_OF_LINE in marks,
            is_hidden=HIDDEN in marks,
            keyword=next((mark.word for mark in marks if isinstance(mark, Keyword)), None),
        )

    @property
    def name(self) -> str:
        """Return the name for people, which is the keyword where there is one."""
        return self.keyword or self.variable.strip("_")

    @property
    def choices(self) -> tuple[str, ...]:
        """Return the words that it may be, beside what else it may be."""
        return tuple(word for variant in self.variants for word in _words_of(variant))

    @property
    def is_choice(self) -> bool:
        """Return whether it may be nothing but one of the `choices`."""
        return all(_words_of(variant) for variant in self.variants)

    @property
    def usage(self) -> str:
        """Return it as the usage line shows it, without brackets."""
        placeholder = self.variable.strip("_").replace("_", " ").upper()
        shapes = "|".join("|".join(_words_of(variant)) or placeholder for variant in self.variants)
        return shapes if self.keyword is None else f"{self.keyword} {shapes}"

    def take(self, line: str) -> tuple[str | None, str]:
        """Return this argument's part of a line, None where it is left out, and what remains of the line."""
        if self.keyword is not None:
            word, rest = split_word(line)
            if word.lower() != self.keyword:
                return None, line
            line = rest
        elif not line:
            return None, ""
        return (line, "") if self.takes_rest else split_word(line)

    def validate(self, typed: str) -> Any:
        """Return the value of what was typed; raises `ValueError` with what is wrong, which may be empty."""
        word = typed.lower() if typed.lower() in self.choices else typed
        if word:
            try:
                return self.type.validate_python(word)
            except ValidationError:
                pass
        most = next((variant["maximum"] for variant in self.variants if "maximum" in variant), None)
        shown = repr(typed[:MOST_SHOWN_CHARS] or "nothing")
        if most is not None:
            raise ValueError(f"{shown} is no number between 1 and {int(most):,}.")
        is_number = any(variant.get("type") in ("integer", "number") for variant in self.variants)
        raise ValueError(f"{shown} is no number." if is_number else "")


def _words_of(variant: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(variant.get("enum") or ([variant["const"]] if "const" in variant else ()))


def split_word(line: str) -> tuple[str, str]:
    """Return the first word of a line and the rest, both empty where there is none."""
    word, rest = [*line.split(None, 1), "", ""][:2]
    return word, rest.strip()


Run = Callable[..., Awaitable[Any]]


class Form(Struct, frozen=True):
    """One way to use a command: its function, and the `word` that chooses it, None where the command has but one."""

    run: Run
    summary: str
    parameters: tuple[Parameter, ...]
    word: str | None = None
    is_default: bool = True
    requires: Permission = Permission.GUEST
    ignores_more: bool = False

    @classmethod
    def read(
        cls,
        run: Run,
        *,
        word: str | None = None,
        is_default: bool = True,
        requires: Permission = Permission.GUEST,
    ) -> "Form":
        """Read the signature of an async function; its docstring's first line is the summary."""
        hints = get_type_hints(run, include_extras=True)
        _, *own = inspect.signature(run).parameters.values()
        named = [parameter for parameter in own if parameter.kind is not parameter.VAR_POSITIONAL]
        return cls(
            run,
            (inspect.getdoc(run) or "").partition("\n")[0],
            tuple(Parameter.read(parameter, hints[parameter.name]) for parameter in named),
            word=word,
            is_default=is_default,
            requires=requires,
            ignores_more=len(named) < len(own),
        )

    @property
    def visible(self) -> list[Parameter]:
        """Return the parameters that people are shown."""
        return [parameter for parameter in self.parameters if not parameter.is_hidden]

    @property
    def usage(self) -> str:
        """Return the arguments as `WORD REQUIRED [OPTIONAL [BEHIND IT]]`."""
        parts = [] if self.word is None else [self.word]
        parts += [parameter.usage if parameter.is_required else f"[{parameter.usage}" for parameter in self.visible]
        return " ".join(parts) + "]" * sum(not parameter.is_required for parameter in self.visible)

    @property
    def words(self) -> tuple[str, ...]:
        """Return the words that may stand first."""
        if self.word is not None:
            return (self.word,)
        return tuple(
            word
            for parameter in self.visible[:1]
            for word in ((parameter.keyword,) if parameter.keyword else parameter.choices)
        )

    def bind(self, line: str) -> dict[str, Any]:
        """Return the arguments in a line; raises `ValueError` with what is wrong, which may be empty."""
        values = {}
        for parameter in self.parameters:
            part, line = parameter.take(line)
            if part is not None:
                values[parameter.variable] = parameter.validate(part)
            elif parameter.is_required:
                raise ValueError("")
        if line and not self.ignores_more:
            raise ValueError("")
        return values
