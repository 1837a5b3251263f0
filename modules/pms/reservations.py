"""Holds, books and cancels stays. The room is locked while its bookings change; the table's constraint decides."""

from datetime import timedelta

from sqlalchemy import Select, func, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from modules.pms.models import Booking, Room
from modules.pms.settings import PmsSettings
from modules.pms.stays import Offer, Stay
from shared.db.errors import sqlstate_of
from shared.db.statements import load_statements
from shared.errors import NotFound, ToolError
from shared.text import MAX_ID
from shared.tools import ToolContext

statements = load_statements(__file__)

EXCLUSION_VIOLATION = "23P01"
MAX_LISTED = 50


async def occupy(context: ToolContext, offer: Offer, stay: Stay, *, is_hold: bool) -> Booking:
    """Hold or book the room; the person's own hold of it is replaced.

    Raises `ToolError` when somebody was faster, or when the person holds as many rooms as they may.
    """
    booking = Booking(room_id=offer.room_id, user_id=context.user.id, stay=stay.days, guests=stay.guests)
    booking.total, booking.status = offer.total, "held" if is_hold else "booked"
    try:
        async with context.transaction() as session:
            # Without the lock, two inserts that wait for each other would be a deadlock.
            await session.execute(select(Room.id).where(Room.id == offer.room_id).with_for_update(key_share=True))
            is_over = (Booking.held_until <= func.now()) | (Booking.user_id == context.user.id)
            in_the_way = (Booking.room_id == offer.room_id) & Booking.stay.op("&&")(stay.days)
            await session.execute(
                update(Booking).where(in_the_way, Booking.status == "held", is_over).values(status="cancelled")
            )
            if is_hold:
                await _limit_holds(session, context)
                until = timedelta(minutes=context.settings(PmsSettings).hold_minutes)
                booking.held_until = await session.scalar(select(func.now() + until))
            session.add(booking)
    except IntegrityError as error:
        if sqlstate_of(error) != EXCLUSION_VIOLATION:
            raise
        raise ToolError(f"{offer.room} has just been taken; look at get_availability again.") from None
    return booking


async def get_booking(session: AsyncSession, context: ToolContext, booking_id: int) -> tuple[Booking, Room]:
    """Return a stay of the person that is held or booked; raises `NotFound` for any other."""
    # Locked, so that two cancellations, or one beside the end of a hold, follow each other.
    mine = _own(context).where(Booking.id == booking_id).with_for_update(of=Booking)
    row = (await session.execute(mine)).first() if 0 < booking_id <= MAX_ID else None
    if row is None:
        raise NotFound(what="booking")
    return row[0], row[1]


async def list_own(context: ToolContext) -> list[tuple[Booking, Room]]:
    """Return the person's stays that are held or booked and not over, the next one first."""
    today = func.current_date()
    query = _own(context).where(func.upper(Booking.stay) >= today).order_by(Booking.stay, Booking.id).limit(MAX_LISTED)
    async with context.transaction() as session:
        return [(row[0], row[1]) for row in await session.execute(query)]


async def _limit_holds(session: AsyncSession, context: ToolContext) -> None:
    await session.execute(statements.lock_bookings, {"user_id": context.user.id})
    mine = (Booking.user_id == context.user.id) & (Booking.status == "held") & (Booking.held_until > func.now())
    hold_count = await session.scalar(select(func.count()).select_from(Booking).where(mine))
    most = context.settings(PmsSettings).max_holds
    if (hold_count or 0) >= most:
        raise ToolError(f"A person holds at most {most} rooms at a time; book or cancel one first.")


def _own(context: ToolContext) -> Select[Booking, Room]:
    is_alive = (Booking.status == "booked") | ((Booking.status == "held") & (Booking.held_until > func.now()))
    joined = select(Booking, Room).join(Room, Room.id == Booking.room_id)
    return joined.where(Booking.user_id == context.user.id, is_alive)
