"""How a model is made to answer in JSON: by a schema, as an object, or by instructions alone; tried once per model.

Servers with OpenAI's protocol differ in what they accept, and say so only by refusing a request. A refused request
costs nothing, so the next weaker form is tried; the accepted one is remembered.
"""

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any

from agent.llm.completions import Cause, Completion, ModelRequest, RouteFailed

NAME = "plan"


class Form(StrEnum):
    """From the strictest to the one that every model accepts; the last one leaves the temperature to the model too."""

    SCHEMA = "schema"
    OBJECT = "object"
    WORDS = "words"
    BARE = "bare"


class Forms:
    """The form that each model has accepted, by the name of the model."""

    def __init__(self) -> None:
        self._accepted: dict[str, Form] = {}

    async def ask(self, name: str, best: Form, ask: Callable[[Form], Awaitable[Completion]]) -> Completion:
        """Ask in the form that was accepted before, or in one after the other from `best` on, until one is accepted."""
        every = list(Form)
        untried = [self._accepted[name]] if name in self._accepted else every[every.index(best) :]
        while True:
            form = untried.pop(0)
            try:
                completion = await ask(form)
            except RouteFailed as failure:
                if failure.cause is not Cause.REQUEST_REFUSED or not untried:
                    raise
                continue
            self._accepted[name] = form
            return completion


def to_parameters(request: ModelRequest, form: Form) -> dict[str, Any]:
    """Return the parameters that a request in this form needs beside its messages."""
    given: dict[str, Any] = {}
    if request.temperature is not None and form is not Form.BARE:
        given["temperature"] = request.temperature
    if form is Form.SCHEMA:
        # Not strict: tool arguments are objects with any keys, which a strict schema can't express.
        schema = {"name": NAME, "schema": request.answer_schema, "strict": False}
        given["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif form is Form.OBJECT:
        given["response_format"] = {"type": "json_object"}
    return given
