"""A router with the strict stand-in, for tests of model calls."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

from agent.llm.completions import CallObserver, Completion, ModelRequest, RejectedCall
from agent.llm.router import Router
from shared.clock import SystemClock
from shared.settings import Settings
from tests.standins.openai_api import OpenAIStub, Reply, Script

HELLO = ({"role": "user", "content": "hello"},)
ROLL = {
    "type": "function",
    "function": {
        "name": "dice__roll",
        "description": "Roll dice.",
        "parameters": {"type": "object", "properties": {"sides": {"type": "integer"}}, "additionalProperties": False},
    },
}


class SteppedClock(SystemClock):
    """The real clock, which the test can advance."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.ahead)

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


class Parley:
    """A router with its stand-in."""

    def __init__(self, router: Router, stub: OpenAIStub, clock: SteppedClock) -> None:
        self.router, self.stub, self.clock = router, stub, clock
        self.told: list[str] = []

    async def asks(
        self,
        *,
        seconds: float = 60,
        is_streamed: bool = False,
        is_background: bool = False,
        spent: list[RejectedCall] | None = None,
        **request: Any,
    ) -> Completion:
        """Ask as a turn does; `told` has the streamed text that was not withdrawn."""
        model_request = ModelRequest(**{"messages": HELLO, "tools": (), "max_tokens": 100, **request})
        return await self.router.complete(
            model_request,
            deadline=self.clock.monotonic() + seconds,
            observer=CallObserver(
                on_text=self.told.append if is_streamed else None,
                on_reset=self.told.clear if is_streamed else None,
                spent=[] if spent is None else spent,
            ),
            is_background=is_background,
        )

    @property
    def asked_models(self) -> list[str]:
        """Return the models that were asked, in order."""
        return [request.body["model"] for request in self.stub.requests]


@asynccontextmanager
async def parley(script: Script | None = None, *models: str, **settings: Any) -> AsyncIterator[Parley]:
    clock = SteppedClock()
    async with OpenAIStub(script) as stub:
        parameters = {"openai_base_url": stub.base_url, "openai_api_key": "sk-test", **settings}
        router = Router(Settings(llm_models=models or ("small",), **parameters), clock, jitter=lambda: 0.0)
        try:
            # The import of litellm takes seconds, which would count towards the deadlines of calls.
            await router.warm()
            yield Parley(router, stub, clock)
        finally:
            await router.aclose()
        assert stub.refusals == []


def by_model(**replies: Reply) -> Callable[[dict[str, Any], int], Reply]:
    return lambda body, _number: replies[body["model"]]
