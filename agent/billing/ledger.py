"""What model calls have cost, as the ledger keeps it."""

from dataclasses import dataclass
from typing import Any

from shared.messages import COST_DIGITS, Usage


@dataclass(frozen=True, slots=True)
class PaidCall:
    """One model call as the ledger keeps it."""

    model: str
    usage: Usage
    purpose: str = "answer"


def add_usage(one: Usage, other: Usage) -> Usage:
    """Return the sum; the cost of a sum is unknown when one part of it is."""
    if one == Usage():
        return other
    cost = None if one.cost is None or other.cost is None else round(one.cost + other.cost, COST_DIGITS)
    return Usage(
        one.input_tokens + other.input_tokens,
        one.cached_tokens + other.cached_tokens,
        one.output_tokens + other.output_tokens,
        cost,
    )


def to_usage(sums: list[Any]) -> Usage:
    """Return the usage from its sums: input, cached, output tokens and cost."""
    given, cached, made, cost = sums
    return Usage(given or 0, cached or 0, made or 0, None if cost is None else float(cost))
