"""What model calls have cost, as the ledger keeps it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shared.messages import COST_DIGITS, Usage


@dataclass(frozen=True, slots=True)
class PaidCall:
    """One model call as the ledger keeps it."""

    model: str
    usage: Usage
    purpose: str = "answer"


@dataclass(frozen=True, slots=True)
class Payment:
    """The calls of one model answer, rejected attempts included, and the tokens to hold for the next call.

    With `reserve` 0 no call follows. A reservation expires after `seconds`.
    """

    calls: Sequence[PaidCall]
    reserve: int = 0
    seconds: float = 0

    def to_parameters(self) -> dict[str, Any]:
        """Return the parameters that pay, for the functions of the database."""
        return {"calls": to_json(self.calls), "reserve": self.reserve, "seconds": self.seconds}


def to_json(calls: Sequence[PaidCall]) -> str:
    """Return the calls as `parley_charge_v1` reads them."""
    return json.dumps(
        [
            {
                "purpose": call.purpose,
                "model": call.model,
                "input_tokens": call.usage.input_tokens,
                "cached_tokens": call.usage.cached_tokens,
                "output_tokens": call.usage.output_tokens,
                "cost": call.usage.cost,
            }
            for call in calls
        ]
    )


def add_usage(one: Usage, other: Usage) -> Usage:
    """Return the sum of two usages; its cost is unknown when that of one is."""
    if one == Usage():
        return other
    cost = None if one.cost is None or other.cost is None else round(one.cost + other.cost, COST_DIGITS)
    return Usage(
        one.input_tokens + other.input_tokens,
        one.cached_tokens + other.cached_tokens,
        one.output_tokens + other.output_tokens,
        cost=cost,
    )


def to_usage(sums: list[Any]) -> Usage:
    """Return the usage from the sums of its columns: input, cached and output tokens, cost."""
    given, cached, made, cost = sums
    return Usage(given or 0, cached or 0, made or 0, cost=None if cost is None else float(cost))
