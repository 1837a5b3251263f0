"""Reads and writes the rows of places, phones and reminders; a position fires reminders in the transaction it is in."""

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from hmac import compare_digest

from msgspec import Struct
from msgspec.structs import replace

from modules.location.geofence import distance, is_inside
from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.hooks import ModuleContext
from shared.messages import Place
from shared.schedules.jobs import NewJob, Origin
from shared.schedules.timing import once

statements = load_statements(__file__)

PAIRING_MINUTES = 10


class Position(Struct, frozen=True):
    """A position that a phone has reported, in degrees, with its accuracy in metres."""

    latitude: float
    longitude: float
    accuracy: float
    recorded_at: datetime


def hash_of(secret: str) -> str:
    """Return what is stored of a secret; it is long and random, so that no slow hash is needed."""
    return sha256(secret.encode()).hexdigest()


async def find_tracker(session: Session, tracker_id: int, password: str) -> int | None:
    """Return the phone's id if this is its password, else None."""
    row = (await session.execute(statements.find_tracker, {"id": tracker_id})).one_or_none()
    password_hash = row.password_hash if row is not None and row.password_hash else ""
    return int(row.id) if compare_digest(hash_of(password), password_hash) and row is not None else None


async def take_position(context: ModuleContext, tracker_id: int, position: Position) -> int:
    """Store a position that is newer than the last one, fire what it causes, and return how many reminders."""
    parameters = {
        "id": tracker_id,
        "latitude": position.latitude,
        "longitude": position.longitude,
        "accuracy": position.accuracy,
        # A phone whose clock is ahead must not shut out its later positions.
        "recorded_at": min(position.recorded_at, context.clock.now()),
    }
    fired = 0
    async with context.transaction() as session:
        moved = (await session.execute(statements.move_tracker, parameters)).one_or_none()
        places = (
            (await session.execute(statements.lock_places, {"user_id": moved.user_id})).all()
            if moved is not None
            else []
        )
        for place in places:
            metres = distance((position.latitude, position.longitude), (place.latitude, place.longitude))
            now = is_inside(place.is_inside, metres, radius=place.radius_metres, accuracy=position.accuracy)
            if now == place.is_inside:
                continue
            await session.execute(statements.note_side, {"id": place.id, "is_inside": now})
            # The first position after a place was made tells where the person is, not that they have moved.
            if place.is_inside is not None:
                fired += await _fire(context, session, place.id, event="enter" if now else "leave")
    return fired


async def _fire(context: ModuleContext, session: Session, place_id: int, event: str) -> int:
    reminders = (await session.execute(statements.list_reminders, {"place_id": place_id, "event": event})).all()
    for reminder in reminders:
        origin = Origin(reminder.adapter, reminder.platform_user_id)
        jobs = replace(
            context.jobs_of(
                reminder.user_id, Place.from_row(reminder), conversation_id=reminder.conversation_id, origin=origin
            ),
            author=reminder.author,
        )
        timing = once(context.clock.now() + timedelta(milliseconds=1))
        await jobs.store(session, NewJob(reminder.content, timing, module=context.module))
        await session.execute(statements.end_reminder, {"id": reminder.id})
    return len(reminders)


def to_time(seconds: float) -> datetime:
    """Return the moment that a phone writes as seconds since 1970; raises `ValueError`, `OverflowError`, `OSError`."""
    return datetime.fromtimestamp(seconds, UTC)
