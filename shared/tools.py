"""What a module is made of: `@tool` on a function, and the `ToolContext` that each call is given.

The signature is the schema, the docstring the description. The first parameter is always the context; who asks, where
and in which conversation come from it, never from the model.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from sqlalchemy.ext.asyncio import AsyncSession

from shared.clock import Clock
from shared.errors import ConfirmationNeeded, ToolError
from shared.files.storage import FilesOfUser
from shared.http.client import GuardedClient
from shared.memory.memories import MemoryOfUser
from shared.messages import Place
from shared.permissions import Permission
from shared.settings import Settings
from shared.text import clean

MOST_PROBLEMS = 1000

ModuleSettings = TypeVar("ModuleSettings")
MAX_QUESTION_CHARS = 1500


@dataclass(frozen=True, slots=True)
class Caller:
    """The user on whose behalf a tool runs."""

    id: int
    permission: Permission
    name: str
    time_zone: str = "UTC"
    week_start: str = "monday"


class Transactions(Protocol):
    """Where a short database transaction comes from."""

    def transaction(self) -> AbstractAsyncContextManager[AsyncSession]:
        """Open a transaction that commits at the end of the block."""
        ...


@dataclass(frozen=True, slots=True)
class ToolContext:
    """All that a tool needs, without importing another module.

    `call_id` is the same when a read-only call is repeated after a crash: use it as idempotency key outward.
    `agreed_to` is the question that the person has said yes to for this very call.
    """

    user: Caller
    place: Place
    conversation_id: int
    turn_id: int
    call_id: str
    module: str
    clock: Clock
    http: GuardedClient
    storage: FilesOfUser
    memory: MemoryOfUser
    database: Transactions
    house_settings: Settings
    agreed_to: str | None = None

    def transaction(self) -> AbstractAsyncContextManager[AsyncSession]:
        """Open a transaction; never wait for the network inside it."""
        return self.database.transaction()

    def settings(self, kind: type[ModuleSettings]) -> ModuleSettings:
        """Return this module's own settings, a frozen dataclass read with the module's prefix."""
        return self.house_settings.of_module(kind, self.module)

    def confirm(self, question: str, *, approver: Permission | None = None) -> Awaitable[None]:
        """Go on only with the person's yes to this question: without it the call ends here and the person is asked.

        With an `approver` the yes needs that permission: the person's own, or that of somebody else in the same place.

        Call it before anything is done. On yes the tool runs once more from its beginning with the same arguments, so
        the question must come out the same; another question is asked anew. On no it never runs again.
        """
        asked = clean(question).strip()
        if self.agreed_to is None or asked != self.agreed_to:
            if not 0 < len(asked) <= MAX_QUESTION_CHARS:
                raise ToolError(f"The question to the person would have {len(asked):,} characters; 1 to 1,500 may be.")
            # Raised before it is awaited: a forgotten `await` lets nothing through.
            raise ConfirmationNeeded(question=asked, approver=approver)
        return asyncio.sleep(0)


Run = Callable[..., Awaitable[Any]]


@dataclass(frozen=True)
class Tool:
    """One function that the model may call.

    `read_only` tools run again after a crash; `repeatable` ones are tried a second time when they fail unexpectedly;
    `ends_turn` ones end the loop. `reads_untrusted` and `reads_private` say what their results may hold, `acts` whether
    they act outward or change something: without it, all that are not `read_only`.
    """

    run: Run
    requires: Permission
    read_only: bool = False
    repeatable: bool = False
    ends_turn: bool = False
    timeout_seconds: float = 60
    module: str = field(default="")
    reads_untrusted: bool = False
    reads_private: bool = False
    acts: bool | None = None

    @property
    def is_acting(self) -> bool:
        """Return whether a turn that has read both untrusted and private text needs the person's yes for it."""
        return not self.read_only if self.acts is None else self.acts

    @property
    def name(self) -> str:
        """Return `module.tool`, as admins and people know it."""
        return f"{self.module}.{self.run.__name__}"

    @property
    def wire_name(self) -> str:
        """Return `module__tool`, as models are told."""
        return f"{self.module}__{self.run.__name__}"

    @property
    def description(self) -> str:
        """Return the docstring."""
        return inspect.cleandoc(self.run.__doc__ or "")

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """Return what the model gives, without the context."""
        return dict(list(inspect.signature(self.run).parameters.items())[1:])

    @cached_property
    def arguments(self) -> type[BaseModel]:
        """Return the pydantic model of the arguments; unknown keys are refused."""
        hints = get_type_hints(self.run, include_extras=True)
        given: dict[str, Any] = {
            name: (hints[name], ... if each.default is inspect.Parameter.empty else each.default)
            for name, each in self.parameters.items()
        }
        return create_model(self.run.__name__, __config__=ConfigDict(extra="forbid"), **given)

    def check(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return what `run` takes for these arguments; raises `ToolError` that names the problems."""
        try:
            checked = self.arguments.model_validate(given)
        except ValidationError as error:
            problems = _problems(error)
            raise ToolError("The arguments are not valid.", problems=problems) from None
        return {name: getattr(checked, name) for name in type(checked).model_fields}

    @cached_property
    def schema(self) -> dict[str, Any]:
        """Return the tool in the OpenAI function format, rendered once."""
        parameters = self.arguments.model_json_schema()
        return {
            "type": "function",
            "function": {
                "name": self.wire_name,
                "description": self.description,
                "parameters": _lean(parameters),
            },
        }


def tool(
    *,
    requires: Permission,
    read_only: bool = False,
    repeatable: bool = False,
    ends_turn: bool = False,
    timeout_seconds: float = 60,
    reads_untrusted: bool = False,
    reads_private: bool = False,
    acts: bool | None = None,
) -> Callable[[Run], Tool]:
    """Mark an async function of a module's `__init__.py` as a tool; the toolbox finds it by walking the folders."""

    def mark(run: Run) -> Tool:
        if not inspect.iscoroutinefunction(run):
            raise TypeError(f"{run.__name__}: a tool is an async function")
        module = run.__module__.rpartition(".")[2]
        rules = (requires, read_only, repeatable, ends_turn, timeout_seconds)
        return Tool(run, *rules, module, reads_untrusted, reads_private, acts)

    return mark


def _problems(error: ValidationError) -> list[str]:
    # They are all put together before the first is read, which takes seconds when a long list is wrong in each place.
    if (count := error.error_count()) > MOST_PROBLEMS:
        return [f"{count:,} values are wrong"]
    return [f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}" for each in error.errors()[:10]]


def _lean(schema: Any) -> Any:
    # Bytes in every prompt that tell the model nothing: pydantic titles each field with its own name, a null need not
    # be offered where the argument may be left out, and keys that don't belong are refused at the call anyway.
    if isinstance(schema, list):
        return [_lean(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("default", ...) is None and len(kinds := schema.get("anyOf", ())) == 2 and {"type": "null"} in kinds:
        schema = next(each for each in kinds if each != {"type": "null"}) | schema
        schema = {key: value for key, value in schema.items() if key not in {"anyOf", "default"}}
    return {key: _lean(value) for key, value in schema.items() if not _says_nothing(key, value)}


def _says_nothing(key: str, value: Any) -> bool:
    return (key == "title" and isinstance(value, str)) or (key == "additionalProperties" and value is False)
