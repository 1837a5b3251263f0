"""A hotel's booking system as a module, with a table of free rooms.

Before each call answers, it awaits `before` with its arguments, which the test sets.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from shared.errors import ToolError
from shared.messages import Permission
from shared.tools import Tool, ToolContext, tool

Before = Callable[[date], Awaitable[None]]


async def _at_once(_check_in: date) -> None:
    return


@dataclass
class Hotel:
    """Rooms with their prices a night, and the hook before each answer."""

    rooms: dict[str, int] = field(default_factory=lambda: {"garden": 90, "tower": 140})
    before: Before = _at_once
    timeout_seconds: float = 30

    def tool(self) -> Tool:
        """Return `pms.get_availability` of this hotel."""

        @tool(requires=Permission.GUEST, read_only=True, timeout_seconds=self.timeout_seconds)
        async def get_availability(
            context: ToolContext, check_in: date, check_out: date, guests: int = 2
        ) -> dict[str, Any]:
            """List the rooms that are free from check-in to check-out."""
            await self.before(check_in)
            nights = (check_out - check_in).days
            if nights < 1:
                raise ToolError("check_out must be after check_in.")
            free = [{"room": room, "price": nights * price} for room, price in self.rooms.items()]
            return {"check_in": check_in, "nights": nights, "guests": guests, "rooms": free}

        return get_availability
