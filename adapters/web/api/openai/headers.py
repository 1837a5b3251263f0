"""The headers by which OpenAI's clients learn of a request's id, how long it took, and what is left of the budget."""

import asyncio
import math

from adapters.web.faults import Fault
from agent.app import App
from agent.queue.inbox import Accepted
from shared.db.statements import load_statements
from shared.errors import Unavailable
from shared.messages import Sender

statements = load_statements(__file__)


class Stopwatch:
    """Measures from when it is made."""

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self._began = self._clock()

    @property
    def milliseconds(self) -> int:
        """Return the time since."""
        return round((self._clock() - self._began) * 1000)


async def build_headers(app: App, accepted: Accepted, sender: Sender, stopwatch: Stopwatch) -> dict[str, str]:
    """Return the headers of an answer; those of the budget only where the person's monthly tokens have a limit.

    The log has the turn under the number in `x-request-id`: `inbox=[7]` is `req_7`.
    """
    headers = {"x-request-id": f"req_{accepted.inbox_id}", "openai-processing-ms": str(stopwatch.milliseconds)}
    parameters = {"platform": sender.platform, "platform_user_id": sender.platform_user_id}
    try:
        async with app.database.statement() as session:
            row = (await session.execute(statements.find_token_budget, parameters)).one_or_none()
    except Unavailable:
        # An answer that is there is not withheld for want of these.
        row = None
    if row is None:
        return headers
    seconds = max(0, math.ceil((row.resets_at - app.clock.now()).total_seconds()))
    return headers | {
        "x-ratelimit-limit-tokens": str(row.budget),
        "x-ratelimit-remaining-tokens": str(max(0, row.budget - row.used - row.reserved)),
        "x-ratelimit-reset-tokens": f"{seconds}s",
    }


def with_headers(fault: Fault, headers: dict[str, str]) -> Fault:
    """Return the fault with these headers; of a budget that is used up, also when it renews."""
    reset = headers.get("x-ratelimit-reset-tokens")
    wait = {"Retry-After": reset.removesuffix("s")} if reset and fault.code == "insufficient_quota" else {}
    merged = headers | wait | (fault.headers or {})
    return Fault(fault.status, fault.code, fault.message, field=fault.field, headers=merged)
