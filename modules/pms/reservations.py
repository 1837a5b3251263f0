"""Holds, books and cancels stays. The room is locked while its bookings change; the table's constraint decides."""

from collections.abc import Sequence
from typing import Any

from modules.pms.settings import PmsSettings
from modules.pms.stays import Offer, Stay
from shared.db.driver import Session
from shared.db.errors import server_errors, sqlstate_of
from shared.db.statements import load_statements
from shared.errors import NotFound, ToolError
from shared.text import MAX_ID
from shared.tools import ToolContext

statements = load_statements(__file__)

EXCLUSION_VIOLATION = "23P01"
MAX_LISTED = 50


async def occupy(context: ToolContext, offer: Offer, stay: Stay, *, is_hold: bool) -> Any:
    """Hold or book the room, and return the booking's row; the person's own hold of it is replaced.

    Raises `ToolError` when somebody was faster, or when the person holds as many rooms as they may.
    """
    settings = context.settings(PmsSettings)
    parameters = {"room_id": offer.room_id, "user_id": context.user.id, "total": offer.total, "guests": stay.guests}
    parameters |= {"check_in": stay.check_in, "check_out": stay.check_out}
    parameters |= {"hold_minutes": settings.hold_minutes if is_hold else None}
    try:
        async with context.transaction() as session:
            await session.execute(statements.lock_room, parameters)
            await session.execute(statements.end_holds, parameters)
            if is_hold:
                await _limit_holds(session, context.user.id, settings.max_holds)
            return (await session.execute(statements.add_booking, parameters)).one()
    except server_errors() as error:
        if sqlstate_of(error) != EXCLUSION_VIOLATION:
            raise
        raise ToolError(f"{offer.room} has just been taken; look at get_availability again.") from None


async def get_booking(session: Session, context: ToolContext, booking_id: int) -> Any:
    """Return a stay of the person that is held or booked; raises `NotFound` for any other."""
    parameters = {"user_id": context.user.id, "id": booking_id if 0 < booking_id <= MAX_ID else 0}
    row = (await session.execute(statements.lock_booking, parameters)).one_or_none()
    if row is None:
        raise NotFound(what="booking")
    return row


async def cancel_booking(session: Session, booking_id: int) -> None:
    """Cancel a booking or a hold."""
    await session.execute(statements.cancel_booking, {"id": booking_id})


async def list_own(context: ToolContext) -> Sequence[Any]:
    """Return the person's stays that are held or booked and not over, the next one first."""
    async with context.transaction() as session:
        return (await session.execute(statements.list_bookings, {"user_id": context.user.id, "most": MAX_LISTED})).all()


async def _limit_holds(session: Session, user_id: int, most: int) -> None:
    await session.execute(statements.lock_bookings, {"user_id": user_id})
    if (await session.execute(statements.count_holds, {"user_id": user_id})).scalar_one() >= most:
        raise ToolError(f"A person holds at most {most} rooms at a time; book or cancel one first.")
