"""The tables of rooms, their rates and bookings. Admins fill in rooms and rates in SQL."""

from datetime import date, datetime
from decimal import Decimal

from sqlalchemy import (
    CheckConstraint,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    Numeric,
    Text,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import DATERANGE, ExcludeConstraint, Range
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row

# As a range, a number has a GiST index without an extension.
ROOM = text("int8range(room_id, room_id, '[]')")
OCCUPYING = "status IN ('held', 'booked')"


class Room(Row, Base):
    """A room that can be booked."""

    __tablename__ = "rooms"
    __table_args__ = (
        CheckConstraint("btrim(name) = name AND name <> ''", name="name_is_not_empty_and_has_no_outer_spaces"),
        CheckConstraint("char_length(name) <= 80", name="name_has_at_most_80_characters"),
        CheckConstraint("char_length(description) <= 500", name="description_has_at_most_500_characters"),
        CheckConstraint("capacity BETWEEN 1 AND 100", name="capacity_is_1_to_100"),
        CheckConstraint("currency ~ '^[A-Z]{3}$'", name="currency_is_three_capital_letters"),
        {"comment": "Rooms of the module pms. One without rates is not offered."},
    )

    name: Mapped[str] = mapped_column(Text, comment="What people call it, unique, e.g. Garden suite.")
    description: Mapped[str] = mapped_column(Text, server_default="", comment="What guests should know.")
    capacity: Mapped[int] = mapped_column(Integer, server_default=text("2"), comment="Most guests.")
    currency: Mapped[str] = mapped_column(Text, server_default="EUR", comment="The currency of its rates, e.g. EUR.")
    is_active: Mapped[bool] = mapped_column(
        server_default=text("true"), comment="Off: not offered; bookings that exist stay."
    )


Index("uq_rooms_name", func.lower(Room.name), unique=True)


class RoomRate(Row, Base):
    """The price of a room for the nights of a range of days."""

    __tablename__ = "room_rates"
    __table_args__ = (
        ExcludeConstraint((ROOM, "&&"), ("days", "&&"), name="one_rate_for_each_night_of_a_room", using="gist"),
        Index(None, "room_id"),
        CheckConstraint("NOT isempty(days)", name="days_is_not_empty"),
        CheckConstraint("price >= 0", name="price_is_not_negative"),
        CheckConstraint("min_nights BETWEEN 1 AND 365", name="min_nights_is_1_to_365"),
        {"comment": "Prices of rooms. A night without a rate can't be booked."},
    )

    room_id: Mapped[int] = mapped_column(ForeignKey("rooms.id", ondelete="CASCADE"), comment="The room.")
    days: Mapped[Range[date]] = mapped_column(
        DATERANGE, comment="The nights, by their evening, e.g. [2026-12-01,2027-01-01) for December."
    )
    price: Mapped[Decimal] = mapped_column(Numeric(12, 2), comment="For one night, for the whole room.")
    min_nights: Mapped[int] = mapped_column(
        Integer, server_default=text("1"), comment="Fewest nights of a stay that begins in these days."
    )


class Booking(Row, Base):
    """A stay: held for a while, booked, or cancelled."""

    __tablename__ = "bookings"
    __table_args__ = (
        ExcludeConstraint(
            (ROOM, "&&"), ("stay", "&&"), name="a_room_is_booked_once", using="gist", where=text(OCCUPYING)
        ),
        Index(None, "room_id"),
        Index(None, "user_id"),
        CheckConstraint("status IN ('held', 'booked', 'cancelled')", name="status_is_held_booked_or_cancelled"),
        CheckConstraint("NOT isempty(stay) AND NOT lower_inf(stay) AND NOT upper_inf(stay)", name="stay_has_both_days"),
        CheckConstraint("guests BETWEEN 1 AND 100", name="guests_is_1_to_100"),
        CheckConstraint("total >= 0", name="total_is_not_negative"),
        CheckConstraint("status <> 'held' OR held_until IS NOT NULL", name="held_needs_held_until"),
        {"comment": "Stays. A room can't be held or booked twice for a night."},
    )

    room_id: Mapped[int] = mapped_column(ForeignKey("rooms.id", ondelete="CASCADE"), comment="The room.")
    user_id: Mapped[int | None] = mapped_column(
        ForeignKey("users.id", ondelete="SET NULL"), comment="Who booked; NULL: staff, or a user who is gone."
    )
    stay: Mapped[Range[date]] = mapped_column(
        DATERANGE, comment="From the day of arrival, to that of departure exclusively, e.g. [2026-12-04,2026-12-06)."
    )
    guests: Mapped[int] = mapped_column(Integer, server_default=text("1"), comment="How many.")
    status: Mapped[str] = mapped_column(Text, server_default="booked", comment="held, booked or cancelled.")
    held_until: Mapped[datetime | None] = mapped_column(
        DateTime(timezone=True), comment="held: from then on others may have the room."
    )
    total: Mapped[Decimal] = mapped_column(
        Numeric(12, 2), server_default=text("0"), comment="The agreed price, in the room's currency."
    )
