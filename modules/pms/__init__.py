"""Tools for stays: free rooms and their prices, holds, bookings."""

from datetime import date
from typing import Annotated, Any

from pydantic import Field

from modules.pms.reservations import cancel_booking, get_booking, list_own, occupy
from modules.pms.stays import Stay, get_offer, list_nights, list_offers, read_stay, today_of
from shared.errors import ToolError
from shared.messages import Permission
from shared.tools import ToolContext, tool

Guests = Annotated[int, Field(ge=1, le=100)]
Name = Annotated[str, Field(max_length=200)]


@tool(
    requires=Permission.GUEST,
    read_only=True,
    repeatable=True,
    words=("Looking for rooms from {check_in} to {check_out}", "Looked for rooms from {check_in} to {check_out}"),
)
async def get_availability(context: ToolContext, check_in: date, check_out: date, guests: Guests = 2) -> dict[str, Any]:
    """Find free rooms and their prices; check_out is the day of departure.

    Example: {"check_in": "2030-05-01", "check_out": "2030-05-03"} -> "room": "Garden"
    """
    stay = read_stay(context, check_in, check_out, guests=guests)
    async with context.transaction() as session:
        offers = await list_offers(session, stay, context.user.id)
    return {**stay.to_fields(), "rooms": [offer.to_fields() for offer in offers]}


@tool(
    requires=Permission.GUEST,
    read_only=True,
    repeatable=True,
    words=("Working out the price of {room} from {check_in}", "Worked out the price of {room} from {check_in}"),
)
async def quote(
    context: ToolContext, room: Name, check_in: date, check_out: date, guests: Guests = 2
) -> dict[str, Any]:
    """Get the price of a free room, night by night.

    Example: {"room": "Garden", "check_in": "2030-05-01", "check_out": "2030-05-03"} -> "total": "180.00"
    """
    stay = read_stay(context, check_in, check_out, guests=guests)
    async with context.transaction() as session:
        offer = await get_offer(session, stay, context.user.id, room=room)
        nights = await list_nights(session, stay, offer.room_id)
    return {**stay.to_fields(), **offer.to_fields(), "prices": nights}


@tool(requires=Permission.USER, words=("Holding {room} from {check_in}", "Held {room} from {check_in}"))
async def hold(context: ToolContext, room: Name, check_in: date, check_out: date, guests: Guests = 2) -> dict[str, Any]:
    """Keep a room free for the person for some minutes, without booking it.

    Example: {"room": "Garden", "check_in": "2030-05-01", "check_out": "2030-05-03"} -> "status": "held"
    """
    stay = read_stay(context, check_in, check_out, guests=guests)
    async with context.transaction() as session:
        offer = await get_offer(session, stay, context.user.id, room=room)
    booking = await occupy(context, offer, stay, is_hold=True)
    until = booking.held_until.isoformat(timespec="minutes") if booking.held_until else None
    return {"booking_id": booking.id, "status": "held", "held_until": until, **stay.to_fields(), **offer.to_fields()}


@tool(
    requires=Permission.USER, confirms=True, words=("Booking {room} from {check_in}", "Booked {room} from {check_in}")
)
async def book(context: ToolContext, room: Name, check_in: date, check_out: date, guests: Guests = 2) -> dict[str, Any]:
    """Book a room, also one that the person holds; the person is asked first.

    Example: {"room": "Garden", "check_in": "2030-05-01", "check_out": "2030-05-03"} -> Book “Garden”
    """
    stay = read_stay(context, check_in, check_out, guests=guests)
    async with context.transaction() as session:
        offer = await get_offer(session, stay, context.user.id, room=room)
    await context.confirm(f"Book “{offer.room}”, {stay.sentence()}, for {offer.total:.2f} {offer.currency}?")
    booked = await occupy(context, offer, stay, is_hold=False)
    return {"booking_id": booked.id, "status": "booked", **stay.to_fields(), **offer.to_fields()}


@tool(
    requires=Permission.USER,
    read_only=True,
    repeatable=True,
    reads_private=True,
    words=("Listing your bookings", "Listed your bookings"),
)
async def list_bookings(context: ToolContext) -> dict[str, Any]:
    """List what the person has held and booked.

    Example: {} -> "booking_id": 1
    """
    bookings = []
    for booking in await list_own(context):
        money = {"total": f"{booking.total:.2f}", "currency": booking.currency}
        hold_fields = {"held_until": booking.held_until.isoformat(timespec="minutes")} if booking.held_until else {}
        about = {"booking_id": booking.id, "status": booking.status, "room": booking.room}
        bookings.append({**about, **_to_stay(booking).to_fields(), **money, **hold_fields})
    return {"bookings": bookings}


@tool(
    requires=Permission.USER, confirms=True, words=("Cancelling booking {booking_id}", "Cancelled booking {booking_id}")
)
async def cancel(context: ToolContext, booking_id: int) -> dict[str, Any]:
    """Cancel a booking or a hold of the person; for a booking, the person is asked first.

    Example: {"booking_id": 1} -> "status": "cancelled"
    """
    async with context.transaction() as session:
        booking = await get_booking(session, context, booking_id)
        stay = _to_stay(booking)
        if booking.status == "booked" and stay.check_in <= today_of(context):
            raise ToolError("This stay has begun; the people of the house can change it.")
        if booking.status == "booked":
            await context.confirm(f"Cancel “{booking.room}”, {stay.sentence()}? This can't be undone.")
        await cancel_booking(session, booking.id)
    return {"booking_id": booking_id, "status": "cancelled", "room": booking.room, **stay.to_fields()}


def _to_stay(booking: Any) -> Stay:
    return Stay(booking.check_in, booking.check_out, booking.guests)
