"""Rooms and bookings; admins fill in rooms and rates in SQL."""

from datetime import date, datetime
from decimal import Decimal

from sqlalchemy import FetchedValue, Integer, Numeric
from sqlalchemy.dialects.postgresql import DATERANGE, Range
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class Room(Row, Base):
    """A room that can be booked."""

    __tablename__ = "rooms"

    name: Mapped[str]
    description: Mapped[str]
    capacity: Mapped[int] = mapped_column(Integer)
    currency: Mapped[str]
    is_active: Mapped[bool]


class Booking(Row, Base):
    """A stay: held for a while, booked, or cancelled."""

    __tablename__ = "bookings"

    room_id: Mapped[int]
    user_id: Mapped[int | None]
    stay: Mapped[Range[date]] = mapped_column(DATERANGE)
    guests: Mapped[int] = mapped_column(Integer, server_default=FetchedValue())
    status: Mapped[str] = mapped_column(server_default=FetchedValue())
    held_until: Mapped[datetime | None]
    total: Mapped[Decimal] = mapped_column(Numeric(precision=12, scale=2), server_default=FetchedValue())
