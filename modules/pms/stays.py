"""Stays that people ask for, and what rooms cost for them."""

from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import Range
from sqlalchemy.ext.asyncio import AsyncSession

from modules.pms.settings import PmsSettings
from shared.errors import ToolError
from shared.text import clean
from shared.tools import ToolContext

MAX_ROOMS = 20

# A person's own hold does not hide the room from them.
OFFERS = """
SELECT rooms.id, rooms.name, rooms.description, rooms.capacity, rooms.currency, sum(room_rates.price) AS total
FROM rooms
CROSS JOIN generate_series(CAST(:check_in AS date), CAST(:check_out AS date) - 1, interval '1 day') AS night
JOIN room_rates ON room_rates.room_id = rooms.id AND room_rates.days @> CAST(night AS date)
WHERE rooms.is_active AND rooms.capacity >= :guests AND (CAST(:room AS bigint) IS NULL OR rooms.id = :room)
AND NOT EXISTS (
    SELECT FROM bookings
    WHERE bookings.room_id = rooms.id AND bookings.stay && daterange(:check_in, :check_out)
    AND (status = 'booked' OR status = 'held' AND held_until > now() AND user_id IS DISTINCT FROM :user_id)
)
GROUP BY rooms.id
HAVING count(*) = CAST(:check_out AS date) - CAST(:check_in AS date)
AND max(room_rates.min_nights) FILTER (WHERE CAST(night AS date) = :check_in) <= count(*)
ORDER BY total, rooms.name LIMIT :most
"""
NIGHTS = """
SELECT min(CAST(night AS date)) AS first_night, count(*) AS nights, room_rates.price
FROM generate_series(CAST(:check_in AS date), CAST(:check_out AS date) - 1, interval '1 day') AS night
JOIN room_rates ON room_rates.room_id = :room AND room_rates.days @> CAST(night AS date)
GROUP BY room_rates.id ORDER BY first_night
"""
ROOMS = "SELECT id, name FROM rooms WHERE is_active ORDER BY name LIMIT 100"


@dataclass(frozen=True, slots=True)
class Stay:
    """The days of arrival and departure, and how many guests."""

    check_in: date
    check_out: date
    guests: int

    @property
    def nights(self) -> int:
        """Return the number of nights."""
        return (self.check_out - self.check_in).days

    @property
    def days(self) -> Range[date]:
        """Return the nights as a range for the database."""
        return Range(self.check_in, self.check_out)

    def to_fields(self) -> dict[str, Any]:
        """Return the fields of a tool's result."""
        days = {"check_in": self.check_in.isoformat(), "check_out": self.check_out.isoformat()}
        return {**days, "nights": self.nights, "guests": self.guests}

    def sentence(self) -> str:
        """Return the stay in words."""
        nights = "1 night" if self.nights == 1 else f"{self.nights} nights"
        guests = "1 guest" if self.guests == 1 else f"{self.guests} guests"
        return f"{_written(self.check_in)} to {_written(self.check_out)}, {nights}, {guests}"


@dataclass(frozen=True, slots=True)
class Offer:
    """A free room and its price for a stay."""

    room_id: int
    room: str
    description: str
    capacity: int
    currency: str
    total: Decimal

    def to_fields(self) -> dict[str, Any]:
        """Return the fields of a tool's result; money is text, so that no digit is lost."""
        about = {"room": self.room, "description": self.description, "capacity": self.capacity}
        return {**about, "total": f"{self.total:.2f}", "currency": self.currency}


def read_stay(context: ToolContext, check_in: date, check_out: date, *, guests: int) -> Stay:
    """Return the stay; raises `ToolError` with what would be valid."""
    bounds, today = context.settings(PmsSettings), today_of(context)
    if not 1 <= (check_out - check_in).days <= bounds.max_nights:
        raise ToolError(f"check_out is the day of departure, 1 to {bounds.max_nights} days after check_in.")
    if not today <= check_in <= today + timedelta(days=bounds.days_ahead):
        raise ToolError(
            f"check_in is from today, {today.isoformat()}, to {bounds.days_ahead} days ahead.", today=today.isoformat()
        )
    return Stay(check_in, check_out, guests)


async def list_offers(session: AsyncSession, stay: Stay, user_id: int, *, room_id: int | None = None) -> list[Offer]:
    """Return the free rooms that have a price for all nights, the cheapest first."""
    parameters = {"check_in": stay.check_in, "check_out": stay.check_out, "guests": stay.guests}
    rows = await session.execute(text(OFFERS), {**parameters, "room": room_id, "user_id": user_id, "most": MAX_ROOMS})
    return [Offer(*row) for row in rows]


async def get_offer(session: AsyncSession, stay: Stay, user_id: int, *, room: str) -> Offer:
    """Return the price of a room; raises `ToolError` with others when it is not to be had."""
    room_id = await _get_room_id(session, room)
    offers = await list_offers(session, stay, user_id, room_id=room_id)
    if not offers:
        others = [offer.room for offer in await list_offers(session, stay, user_id)]
        raise ToolError(f"{room} is not free for {stay.sentence()}.", available_rooms=others)
    return offers[0]


async def list_nights(session: AsyncSession, stay: Stay, room_id: int) -> list[dict[str, Any]]:
    """Return how many nights cost what."""
    rows = await session.execute(
        text(NIGHTS), {"check_in": stay.check_in, "check_out": stay.check_out, "room": room_id}
    )
    return [
        {"first_night": row.first_night.isoformat(), "nights": row.nights, "price": f"{row.price:.2f}"} for row in rows
    ]


async def _get_room_id(session: AsyncSession, name: str) -> int:
    rooms = {row.name: row.id for row in await session.execute(text(ROOMS))}
    for room_name, room_id in rooms.items():
        if room_name.lower() == clean(name).strip().lower():
            return int(room_id)
    raise ToolError(f"There is no room {name[:80]}.", rooms=list(rooms))


def today_of(context: ToolContext) -> date:
    """Return the current date where the person is."""
    try:
        zone = ZoneInfo(context.user.time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        zone = ZoneInfo("UTC")
    return context.clock.now().astimezone(zone).date()


def _written(day: date) -> str:
    return f"{day:%A}, {day.day} {day:%B} {day.year}"
