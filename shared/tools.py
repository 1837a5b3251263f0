"""The interface of modules: the decorator `@tool`, and the `ToolContext` that each call receives.

A tool's signature is its JSON schema, its docstring the description for the model. The first parameter is the context,
which says who asks and where; the model can't set it.
"""

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, get_type_hints

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from shared.errors import ConfirmationNeeded, ToolError
from shared.messages import Author, Caller, Permission, Place
from shared.schedules.jobs import Action, Check, Job, JobLimits, JobsOfUser, NewJob
from shared.schedules.timing import Timing
from shared.text import clean

# What a context holds: whoever makes one has imported it, and a command that lists tools makes none.
if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

    from shared.clock import Clock
    from shared.credentials.people import CredentialsOfUser
    from shared.db.database import Database
    from shared.files.storage import FilesOfUser
    from shared.http.client import GuardedClient
    from shared.memory.memories import MemoryOfUser
    from shared.settings import Settings

ModuleSettings = TypeVar("ModuleSettings")
# With more validation errors than this, they are counted instead of listed.
MAX_LISTED_PROBLEMS = 1000
MAX_QUESTION_CHARS = 1500
# Arguments that are not a valid JSON object are stored as an object that holds their text under this key.
GARBLED = "not_json"
# Begins an example in the docstring of a tool.
EXAMPLE = "\n\nExample:"


class ModelAccess(Protocol):
    """Model calls on the budget of the person who asks."""

    async def complete(self, prompt: str, *, instructions: str, max_tokens: int, image_id: int | None = None) -> str:
        """Return a model's answer to a prompt, which may show an image: one of the person's files."""
        ...

    async def draw(self, prompt: str, *, model: str, size: str, tokens: int) -> bytes:
        """Return an image that a model has made; `tokens` is what it counts if the provider reports none."""
        ...

    async def speak(self, text: str, *, model: str, voice: str, tokens: int) -> bytes:
        """Return a text that a model has spoken; `tokens` is what it counts."""
        ...


class ToolContext(Struct, frozen=True):
    """What a tool can use: who asks and where, and the services that it needs.

    `call_id` stays the same when a read-only call is repeated after a crash: use it as idempotency key elsewhere.
    `agreed_to` is the question that the person has answered with yes for this call, None when there was none. `author`
    says whether a stranger may have written the arguments: what is stored of them keeps it.
    """

    user: Caller
    place: Place
    conversation_id: int
    turn_id: int
    call_id: str
    module: str
    clock: "Clock"
    http: "GuardedClient"
    storage: "FilesOfUser"
    memory: "MemoryOfUser"
    database: "Database"
    app_settings: "Settings"
    agreed_to: str | None = None
    models: ModelAccess | None = None
    credentials: "CredentialsOfUser | None" = None
    author: Author = "person"

    def transaction(self) -> "AbstractAsyncContextManager[AsyncSession]":
        """Open a transaction; never wait for the network inside it."""
        return self.database.transaction()

    def settings(self, kind: type[ModuleSettings]) -> ModuleSettings:
        """Return this module's settings: `kind` is a frozen dataclass, read from variables with the module's prefix."""
        return self.app_settings.of_module(kind, self.module)

    async def credential(self, name: str) -> str:
        """Return the person's credential for another service: one that came with this message, or was entered before.

        Nobody but the tool sees it: it is removed from results, replies and the log. Raises `CredentialMissing`, which
        tells the model how the person enters it.
        """
        if self.credentials is None:
            raise ToolError("Credentials of people can't be used here.")
        return await self.credentials.get(name)

    def confirm(self, question: str, *, approver: Permission | None = None) -> Awaitable[None]:
        """Continue only if the person has answered this question with yes; otherwise end the call and ask it.

        `approver` is the permission that a yes needs, of the person who asked or of anybody in the same place.

        Call it before the tool has any effect. After a yes the tool runs again from the start with the same arguments,
        and must ask the same question; a different one is asked as well. After a no it does not run again.
        Raises `ToolError` for a question that is empty or too long.
        """
        plain_question = clean(question).strip()
        if self.agreed_to is None or plain_question != self.agreed_to:
            if not 0 < len(plain_question) <= MAX_QUESTION_CHARS:
                raise ToolError(
                    f"The question to the person would have {len(plain_question):,} characters; 1 to 1,500 may be."
                )
            # Raised by the call itself, not when it is awaited, so that a forgotten `await` has no effect.
            raise ConfirmationNeeded(question=plain_question, approver=approver)
        return asyncio.sleep(0)

    @property
    def jobs(self) -> JobsOfUser:
        """Return the person's scheduled jobs that are visible in this conversation."""
        return JobsOfUser(
            self.database,
            self.clock,
            JobLimits.of(self.app_settings),
            user_id=self.user.id,
            place=self.place,
            conversation_id=self.conversation_id,
            turn_id=self.turn_id,
            author=self.author,
        )

    async def schedule(
        self, text: str, timing: Timing, *, action: Action = "notify", check: Check | None = None
    ) -> Job:
        """Make a job of the person in this conversation: when it is due, the text is said, or the model answers it.

        With a `check`, `timing` says when that is made, and the job is due once it has come true. Raises `ToolError`
        for a time that has passed, and when the person has too many jobs or this one is due too often.
        """
        return await self.jobs.add(NewJob(text, timing, action=action, check=check, module=self.module))

    async def complete(
        self, prompt: str, *, instructions: str = "", max_tokens: int = 1000, image_id: int | None = None
    ) -> str:
        """Ask the model of this conversation, on the person's budget; the tool needs `spends_budget=True`.

        `image_id` is the file of an image that the model is shown. Raises `ToolError` when the budget does not admit
        the call, the prompt is too long or the file is no image, `Unavailable` when no model answers.
        """
        return await self._access().complete(
            prompt, instructions=instructions, max_tokens=max_tokens, image_id=image_id
        )

    async def draw(self, prompt: str, *, model: str, size: str, tokens: int) -> bytes:
        """Return an image made by this model (a litellm name), on the person's budget; needs `spends_budget=True`.

        `tokens` is what the image counts if the provider reports no tokens. Raises as `complete` does.
        """
        return await self._access().draw(prompt, model=model, size=size, tokens=tokens)

    async def speak(self, text: str, *, model: str, voice: str, tokens: int) -> bytes:
        """Return a text spoken by this model (a litellm name) as MP3, on the person's budget; as `draw`."""
        return await self._access().speak(text, model=model, voice=voice, tokens=tokens)

    def _access(self) -> ModelAccess:
        if self.models is None:
            raise ToolError("Models can be asked only by tools with `spends_budget`, and only within a turn.")
        return self.models


Run = Callable[..., Awaitable[Any]]
Needs = Callable[["Settings"], str | None]
Words = tuple[str, str]


class Tool(Struct, frozen=True, dict=True):
    """A function that the model may call.

    `read_only` tools run again after a crash; `repeatable` ones are retried once after an unexpected error; `ends_turn`
    ones end the turn. `reads_untrusted` and `reads_private` describe their results. `acts` says whether they have
    effects; None means that all tools do which are not `read_only`. `confirms` ones ask the person themselves, always.
    `spends_budget` ones call models on the person's budget. What `computes` ones return follows from their arguments
    alone, so that whoever chose these has chosen it. `needs` returns why the tool is off with these settings,
    None when it is on. `words` say to people what a call does while it runs, and what it has done: `{name}` stands for
    that argument, and what stands in square brackets is left out without it.

    Kinds of tools may say more: calls of `resumable` ones are turns with a journal of their own, so that one that was
    interrupted is made again with the same id, and what it has read is found there; `owns_bare_name` ones are meant by
    their name alone, whatever others are called; the errors of `is_foreign` ones are written elsewhere.
    """

    resumable: ClassVar[bool] = False
    is_foreign: ClassVar[bool] = False
    owns_bare_name: ClassVar[bool] = False

    run: Run
    requires: Permission
    read_only: bool = False
    repeatable: bool = False
    ends_turn: bool = False
    timeout_seconds: float = 60
    module: str = ""
    reads_untrusted: bool = False
    reads_private: bool = False
    acts: bool | None = None
    confirms: bool = False
    spends_budget: bool = False
    computes: bool = False
    needs: Needs | None = None
    words: Words | None = None

    def acts_on(self, arguments: Mapping[str, Any]) -> bool:
        """Tell whether this call needs confirmation in a turn that has read both untrusted and private text."""
        return not self.read_only if self.acts is None else self.acts

    @property
    def name(self) -> str:
        """Return `module.tool`, the name for people."""
        return f"{self.module}.{self.run.__name__}"

    @property
    def wire_name(self) -> str:
        """Return `module__tool`, the name for models."""
        return f"{self.module}__{self.run.__name__}"

    @property
    def description(self) -> str:
        """Return the description for the model: the docstring without its examples, which would cost tokens."""
        return self._documentation.partition(EXAMPLE)[0].strip()

    @property
    def examples(self) -> list[tuple[dict[str, Any], str]]:
        """Return the examples of the docstring: the arguments of a call, and what its result contains.

        An example is a paragraph `Example: {"sides": 6} -> rolled`; raises `ValueError` for one that can't be read.
        """
        pairs = []
        for section in self._documentation.split(EXAMPLE)[1:]:
            arguments, end = json.JSONDecoder().raw_decode(example := " ".join(section.split()))
            arrow, _, outcome = example[end:].strip().partition(" ")
            if arrow != "->" or not outcome:
                raise ValueError(f"{self.name}: an example has the form {EXAMPLE.strip()} {{…}} -> …")
            pairs.append((arguments, outcome))
        return pairs

    @cached_property
    def _documentation(self) -> str:
        return inspect.cleandoc(self.run.__doc__ or "")

    @cached_property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """Return the parameters that the model sets, which are all but the context."""
        return dict(list(inspect.signature(self.run).parameters.items())[1:])

    @cached_property
    def arguments(self) -> type[BaseModel]:
        """Return a pydantic model of the arguments, which forbids unknown keys."""
        hints = get_type_hints(self.run, include_extras=True)
        fields: dict[str, Any] = {
            name: (hints[name], ... if parameter.default is inspect.Parameter.empty else parameter.default)
            for name, parameter in self.parameters.items()
        }
        return create_model(self.run.__name__, __config__=ConfigDict(extra="forbid", defer_build=True), **fields)

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Validate the model's arguments and return those for `run`; raises `ToolError` with the problems."""
        try:
            model = self.arguments.model_validate(arguments)
        except ValidationError as error:
            # `errors()` builds all of them, which takes seconds for a long list in which every item is wrong.
            if (count := error.error_count()) > MAX_LISTED_PROBLEMS:
                problems = [f"{count:,} values are wrong"]
            else:
                details = error.errors()[:10]
                problems = [f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}" for detail in details]
            raise ToolError("The arguments are not valid.", problems=problems) from None
        return {name: getattr(model, name) for name in type(model).model_fields}

    @cached_property
    def schema(self) -> dict[str, Any]:
        """Return the tool in OpenAI's function format; raises `TypeError` for a default that JSON does not have."""
        schema = {
            "type": "function",
            "function": {
                "name": self.wire_name,
                "description": self.description,
                "parameters": _compact(self.arguments.model_json_schema()),
            },
        }
        json.dumps(schema)
        return schema


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
    confirms: bool = False,
    spends_budget: bool = False,
    computes: bool = False,
    needs: Needs | None = None,
    words: Words | None = None,
) -> Callable[[Run], Tool]:
    """Make an async function in a module's `__init__.py` a tool. The parameters are described in `Tool`."""

    def decorate(run: Run) -> Tool:
        if not inspect.iscoroutinefunction(run):
            raise TypeError(f"{run.__name__}: a tool is an async function")
        module = run.__module__.rpartition(".")[2]
        return Tool(
            run,
            requires,
            read_only=read_only,
            repeatable=repeatable,
            ends_turn=ends_turn,
            timeout_seconds=timeout_seconds,
            module=module,
            reads_untrusted=reads_untrusted,
            reads_private=reads_private,
            acts=acts,
            confirms=confirms,
            spends_budget=spends_budget,
            computes=computes,
            needs=needs,
            words=words,
        )

    return decorate


def _compact(schema: Any) -> Any:
    # Saves tokens in every prompt. Pydantic adds a title to each field that repeats its name; an optional argument can
    # be omitted and need not be null; unknown keys are refused by `check` anyway.
    if isinstance(schema, list):
        return [_compact(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("default", ...) is None and len(kinds := schema.get("anyOf", ())) == 2 and {"type": "null"} in kinds:
        schema = next(kind for kind in kinds if kind != {"type": "null"}) | schema
        schema = {key: value for key, value in schema.items() if key not in {"anyOf", "default"}}
    return {key: _compact(value) for key, value in schema.items() if not _is_redundant(key, value)}


def _is_redundant(key: str, value: Any) -> bool:
    if key == "default":
        # Whoever omits an argument gets 0, false or nothing, as one expects.
        return not value
    return (key == "title" and isinstance(value, str)) or (key == "additionalProperties" and value is False)
