"""How a model is held to JSON: by a schema, to an object, or by its instructions alone; found out once per model.

Servers that speak OpenAI's protocol differ in what they take, and say so only by refusing a request. A refused request
costs nothing, so the next lesser form is tried; the one that was taken is kept.
"""

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any

from agent.llm.completions import Cause, Completion, ModelRequest, RouteFailed

NAME = "plan"


class Form(StrEnum):
    """From the strictest to the one that every model takes; the last one leaves the temperature to the model too."""

    SCHEMA = "schema"
    OBJECT = "object"
    WORDS = "words"
    BARE = "bare"


class Forms:
    """The form that each model has answered to, by name."""

    def __init__(self) -> None:
        self._taken: dict[str, Form] = {}

    async def ask(self, name: str, best: Form, ask: Callable[[Form], Awaitable[Completion]]) -> Completion:
        """Ask in the form that was taken before, or in one after the other from `best` on, until one is taken."""
        every = list(Form)
        untried = [self._taken[name]] if name in self._taken else every[every.index(best) :]
        while True:
            form = untried.pop(0)
            try:
                completion = await ask(form)
            except RouteFailed as failure:
                if failure.cause is not Cause.REQUEST_REFUSED or not untried:
                    raise
                continue
            self._taken[name] = form
            return completion


def to_parameters(request: ModelRequest, form: Form) -> dict[str, Any]:
    """Return what a request in this form has beside its messages."""
    given: dict[str, Any] = {}
    if request.temperature is not None and form is not Form.BARE:
        given["temperature"] = request.temperature
    if form is Form.SCHEMA:
        # Not strict: arguments of tools are objects of any keys, which a strict schema can't say.
        schema = {"name": NAME, "schema": request.answer_schema, "strict": False}
        given["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif form is Form.OBJECT:
        given["response_format"] = {"type": "json_object"}
    return given
