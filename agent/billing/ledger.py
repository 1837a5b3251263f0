"""The ledger: model calls with their usage and cost, in the form that the database functions store."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shared.messages import COST_DIGITS, EstimatedUsage, Usage


@dataclass(frozen=True, slots=True)
class PaidCall:
    """One model call for the ledger, which has one row for each `reservation_id`, however often the call is settled."""

    model: str
    usage: Usage
    purpose: str = "answer"
    reservation_id: int | None = None


@dataclass(frozen=True, slots=True)
class Payment:
    """The calls of one model answer, including rejected attempts, and the tokens to reserve for the next call.

    `reserve` is 0 if no call follows. `cost` is an upper estimate of it in US dollars, None when a price is unknown.
    The reservation expires after `seconds`.
    """

    calls: Sequence[PaidCall]
    reserve: int = 0
    cost: float | None = None
    seconds: float = 0

    def to_parameters(self) -> dict[str, Any]:
        """Return the parameters for the database functions that settle the calls."""
        return {
            "calls": to_json(self.calls),
            "reserve": self.reserve,
            "cost": self.cost,
            "seconds": self.seconds,
        }


def to_json(calls: Sequence[PaidCall]) -> str:
    """Return the calls as the JSON that `parley_charge_v3` expects."""
    return json.dumps(
        [
            {
                "reservation_id": call.reservation_id,
                "purpose": call.purpose,
                "model": call.model,
                "input_tokens": call.usage.input_tokens,
                "cached_tokens": call.usage.cached_tokens,
                "output_tokens": call.usage.output_tokens,
                "cost": call.usage.cost,
                "is_estimated": isinstance(call.usage, EstimatedUsage),
            }
            for call in calls
        ]
    )


def add_usage(one: Usage, other: Usage) -> Usage:
    """Return the sum of two usages; its cost is None if one of the costs is unknown."""
    if one == Usage():
        cost = other.cost
    else:
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
