"""People's phones."""

from datetime import datetime

from sqlalchemy.orm import Mapped

from shared.models.base import Base, Row


class Tracker(Row, Base):
    """A person's phone: its credential and its last position."""

    __tablename__ = "location_trackers"

    user_id: Mapped[int]
    pairing_hash: Mapped[str | None]
    pairing_until: Mapped[datetime | None]
    password_hash: Mapped[str | None]
    latitude: Mapped[float | None]
    longitude: Mapped[float | None]
    accuracy_metres: Mapped[float | None]
    recorded_at: Mapped[datetime | None]
