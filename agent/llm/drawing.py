"""Requests for images, and the usage of the answer."""

from dataclasses import dataclass
from typing import Any

from agent.llm.completions import Cause, RouteFailed
from shared.errors import ToolError, Unavailable
from shared.messages import EstimatedUsage, Usage

REFUSED = "The image model refuses this request; describe the picture in another way."
FAILED = "The image model can't be reached just now."


@dataclass(frozen=True, slots=True)
class DrawingRequest:
    """A request for one image; `tokens` is its usage if the provider reports none."""

    model: str
    prompt: str
    size: str
    tokens: int

    def to_usage(self, reported: Any, cost: float | None) -> Usage:
        """Return the usage that the provider has reported, with the price of the image."""
        counts = [getattr(reported, name, None) for name in ("input_tokens", "output_tokens")]
        given, made = (count if isinstance(count, int) and count > 0 else 0 for count in counts)
        return Usage(given, 0, made, cost=cost) if made else EstimatedUsage(given, 0, self.tokens, cost=cost)

    @property
    def estimated(self) -> Usage:
        """Return the usage if the provider reports none."""
        return self.to_usage(None, None)

    def to_error(self, failure: RouteFailed) -> ToolError | Unavailable:
        """Convert the failure of the route to an error for the tool."""
        return ToolError(REFUSED) if failure.cause is Cause.REQUEST_REFUSED else Unavailable(FAILED)
