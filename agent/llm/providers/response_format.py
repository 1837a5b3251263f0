"""Response formats: makes a model answer in JSON, by a schema, by JSON mode, or only by instructions.

OpenAI-compatible servers accept different formats, and only a refused request shows which. A refused request costs
nothing, so the next weaker form is tried; the accepted form is remembered per model.
"""

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any

from agent.llm.completions import Cause, Completion, ModelRequest, RouteFailed

NAME = "plan"


class Form(StrEnum):
    """The forms, from the strictest to the one that every model accepts; `BARE` also omits the temperature."""

    SCHEMA = "schema"
    OBJECT = "object"
    WORDS = "words"
    BARE = "bare"


class Forms:
    """Remembers the accepted form by model name."""

    def __init__(self) -> None:
        self._accepted: dict[str, Form] = {}

    async def ask(self, name: str, best: Form, ask: Callable[[Form], Awaitable[Completion]]) -> Completion:
        """Call `ask` with the remembered form, else with each form from `best` on until one is accepted.

        Raises the `RouteFailed` of the last form.
        """
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
    """Return the additional request parameters for this form: temperature and `response_format`."""
    given: dict[str, Any] = {}
    if request.temperature is not None and form is not Form.BARE:
        given["temperature"] = request.temperature
    if form is Form.SCHEMA:
        # Not strict, because a strict schema can't express tool arguments, which are objects with arbitrary keys.
        schema = {"name": NAME, "schema": request.answer_schema, "strict": False}
        given["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif form is Form.OBJECT:
        given["response_format"] = {"type": "json_object"}
    return given
