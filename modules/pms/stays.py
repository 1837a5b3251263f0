"""Stays that people ask for, and what rooms cost for them."""

from datetime import date, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct

from modules.pms.settings import PmsSettings
from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.errors import ToolError
from shared.text import clean
from shared.tools import ToolContext

statements = load_statements(__file__)

MAX_ROOMS = 20


class Stay(Struct, frozen=True):
    """The days of arrival and departure, and how many guests."""

    check_in: date
    check_out: date
    guests: int

    @property
    def nights(self) -> int:
        """Return the number of nights."""
        return (self.check_out - self.check_in).days

    def to_fields(self) -> dict[str, Any]:
        """Return the fields of a tool's result."""
        days = {"check_in": self.check_in.isoformat(), "check_out": self.check_out.isoformat()}
        return {**days, "nights": self.nights, "guests": self.guests}

    def sentence(self) -> str:
        """Return the stay in words."""
        nights = "1 night" if self.nights == 1 else f"{self.nights} nights"
        guests = "1 guest" if self.guests == 1 else f"{self.guests} guests"
        return f"{_in_words(self.check_in)} to {_in_words(self.check_out)}, {nights}, {guests}"


class Offer(Struct, frozen=True):
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


async def list_offers(session: Session, stay: Stay, user_id: int, *, room_id: int | None = None) -> list[Offer]:
    """Return the free rooms that have a price for all nights, the cheapest first."""
    parameters = {"check_in": stay.check_in, "check_out": stay.check_out, "guests": stay.guests}
    rows = await session.execute(
        statements.list_offers, {**parameters, "room": room_id, "user_id": user_id, "most": MAX_ROOMS}
    )
    return [Offer(*row) for row in rows.all()]


async def get_offer(session: Session, stay: Stay, user_id: int, *, room: str) -> Offer:
    """Return the price of a room; raises `ToolError` with others when it is not to be had."""
    rooms = {row.name: row.id for row in (await session.execute(statements.list_rooms)).all()}
    name = clean(room).strip().lower()
    room_id = next((int(room_id) for room_name, room_id in rooms.items() if room_name.lower() == name), None)
    if room_id is None:
        raise ToolError(f"There is no room {room[:80]}.", rooms=list(rooms))
    offers = await list_offers(session, stay, user_id, room_id=room_id)
    if not offers:
        others = [offer.room for offer in await list_offers(session, stay, user_id)]
        raise ToolError(f"{room} is not free for {stay.sentence()}.", available_rooms=others)
    return offers[0]


async def list_nights(session: Session, stay: Stay, room_id: int) -> list[dict[str, Any]]:
    """Return how many nights cost what."""
    rows = await session.execute(
        statements.list_nights, {"check_in": stay.check_in, "check_out": stay.check_out, "room": room_id}
    )
    return [
        {"first_night": row.first_night.isoformat(), "nights": row.nights, "price": f"{row.price:.2f}"}
        for row in rows.all()
    ]


def today_of(context: ToolContext) -> date:
    """Return the current date where the person is."""
    try:
        zone = ZoneInfo(context.user.time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        zone = ZoneInfo("UTC")
    return context.clock.now().astimezone(zone).date()


def _in_words(day: date) -> str:
    return f"{day:%A}, {day.day} {day:%B} {day.year}"
