"""The tables of named places, of people's positions, and of reminders on enter and leave."""

from datetime import datetime

from sqlalchemy import CheckConstraint, DateTime, Double, ForeignKey, Index, Integer, Text, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class NamedPlace(Row, Base):
    """A circle on the map with a person's name for it."""

    __tablename__ = "location_places"
    __table_args__ = (
        UniqueConstraint("user_id", "name"),
        CheckConstraint("latitude BETWEEN -90 AND 90", name="latitude_is_in_degrees"),
        CheckConstraint("longitude BETWEEN -180 AND 180", name="longitude_is_in_degrees"),
        CheckConstraint("radius_metres BETWEEN 50 AND 50000", name="radius_is_50_to_50000_metres"),
        {"comment": "Named places of people, of the module location."},
    )

    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), comment="Whose place it is.")
    name: Mapped[str] = mapped_column(Text, comment="What the person calls it, in lower case.")
    latitude: Mapped[float] = mapped_column(Double, comment="Degrees.")
    longitude: Mapped[float] = mapped_column(Double, comment="Degrees.")
    radius_metres: Mapped[int] = mapped_column(Integer, server_default="150", comment="Who is nearer is there.")
    is_inside: Mapped[bool | None] = mapped_column(comment="Is the person there? NULL: no position since it was made.")


class Tracker(Row, Base):
    """A person's phone: its credential and its last position."""

    __tablename__ = "location_trackers"
    __table_args__ = (
        UniqueConstraint("user_id"),
        {"comment": "Phones that report positions by OwnTracks, of the module location."},
    )

    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), comment="Whose phone it is.")
    pairing_hash: Mapped[str | None] = mapped_column(
        Text, comment="SHA-256 of the code of a pairing link; NULL: none is open."
    )
    pairing_until: Mapped[datetime | None] = mapped_column(
        DateTime(timezone=True), comment="The pairing link opens until then."
    )
    password_hash: Mapped[str | None] = mapped_column(Text, comment="SHA-256 of the password; NULL: not paired.")
    latitude: Mapped[float | None] = mapped_column(Double, comment="Degrees; NULL: nothing was reported.")
    longitude: Mapped[float | None] = mapped_column(Double, comment="Degrees.")
    accuracy_metres: Mapped[float | None] = mapped_column(Double, comment="How exact the position is.")
    recorded_at: Mapped[datetime | None] = mapped_column(
        DateTime(timezone=True), comment="The phone's time of the position; an older one is dropped."
    )


class PlaceReminder(Row, Base):
    """What is said when a person comes to a place or leaves it."""

    __tablename__ = "location_reminders"
    __table_args__ = (
        CheckConstraint("event IN ('enter', 'leave')", name="event_is_enter_or_leave"),
        CheckConstraint("length(content) <= 4000", name="content_has_at_most_4000_characters"),
        CheckConstraint("author IN ('person', 'stranger')", name="author_is_person_or_stranger"),
        Index(None, "user_id"),
        Index(None, "place_id"),
        Index(None, "conversation_id"),
        {"comment": "Reminders on enter and leave, of the module location; a scheduled job says them."},
    )

    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), comment="Whom it reminds.")
    place_id: Mapped[int] = mapped_column(ForeignKey("location_places.id", ondelete="CASCADE"), comment="The place.")
    conversation_id: Mapped[int] = mapped_column(
        ForeignKey("conversations.id", ondelete="CASCADE"), comment="Where it is said."
    )
    door: Mapped[str] = mapped_column(Text, comment="The adapter that sends it.")
    platform_user_id: Mapped[str] = mapped_column(Text, comment="The person's account there.")
    event: Mapped[str] = mapped_column(Text, comment="enter or leave.")
    content: Mapped[str] = mapped_column(Text, comment="The text.")
    author: Mapped[str] = mapped_column(
        Text, server_default="person", comment="Who wrote the text: the person, or perhaps a stranger."
    )
    repeats: Mapped[bool] = mapped_column(server_default=text("false"), comment="Each time, not only once?")
