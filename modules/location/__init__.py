"""Tools for named places and for reminders when a person comes to one or leaves it; positions come by OwnTracks."""

import json
from base64 import b64decode
from binascii import Error as Base64Error
from math import isfinite
from secrets import token_urlsafe
from typing import Annotated, Any, Literal

from pydantic import Field

from modules.location.geocoding import find_address
from modules.location.geofence import distance
from modules.location.rows import (
    PAIRING_MINUTES,
    Position,
    find_tracker,
    hash_of,
    take_position,
    to_time,
)
from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.errors import NotFound, ToolError
from shared.hooks import HttpRequest, HttpResponse, ModuleContext, route
from shared.messages import Permission
from shared.text import clean
from shared.tools import ToolContext, tool

statements = load_statements(__file__)

Name = Annotated[str, Field(min_length=1, max_length=60)]
MOST_PLACES, MOST_REMINDERS = 50, 100
UNAUTHORIZED = HttpResponse(status=401, headers={"WWW-Authenticate": 'Basic realm="Parley"'})
UNKNOWN_ACCURACY = 100.0


# `acts=False`: places and reminders are the person's alone.
@tool(requires=Permission.USER, acts=False, words=("Saving the place {name}", "Saved the place {name}"))
async def save_place(
    context: ToolContext,
    name: Name,
    address: Annotated[str, Field(max_length=200)] | None = None,
    radius_metres: Annotated[int, Field(ge=50, le=50_000)] = 150,
) -> dict[str, Any]:
    """Save a place under a name: an address, or without one the person's current position.

    Example: {"name": "Gym", "address": "1 Market Street, Springfield"} -> "name": "gym"
    """
    if address is None:
        async with context.transaction() as session:
            current = await _get_current(session, context.user.id)
        label, latitude, longitude = "the current position", current.latitude, current.longitude
    else:
        place = await find_address(context, clean(address))
        label, latitude, longitude = place.label, place.latitude, place.longitude
    parameters = {"user_id": context.user.id, "name": _plain(name), "radius": radius_metres, "most": MOST_PLACES}
    if context.author == "stranger":
        async with context.transaction() as session:
            is_known = (await session.execute(statements.find_place, parameters)).one_or_none() is not None
        if is_known:
            # Where it was is lost.
            await context.confirm(f"Move the place “{parameters['name']}” to {label}?")
    async with context.transaction() as session:
        saved = await session.execute(
            statements.save_place, parameters | {"latitude": latitude, "longitude": longitude}
        )
        if saved.one_or_none() is None:
            raise ToolError(f"There are {MOST_PLACES} places already; delete one first.")
    return {"name": parameters["name"], "at": label, "radius_metres": radius_metres}


@tool(
    requires=Permission.GUEST, read_only=True, reads_private=True, words=("Listing your places", "Listed your places")
)
async def list_places(context: ToolContext) -> dict[str, Any]:
    """List the person's places, and the reminders at them.

    Example: {} -> "name": "home"
    """
    _require_direct(context)
    async with context.transaction() as session:
        places = (await session.execute(statements.list_places, {"user_id": context.user.id})).all()
        reminders = (await session.execute(statements.list_all_reminders, {"user_id": context.user.id})).all()
    return {
        "places": [
            {"name": place.name, "radius_metres": place.radius_metres, "is_there": place.is_inside} for place in places
        ],
        "reminders": [
            {
                "reminder_id": reminder.id,
                "place": reminder.name,
                "on": reminder.event,
                "text": reminder.content,
                "repeats": reminder.repeats,
            }
            for reminder in reminders
        ],
        **({"untrusted": True} if any(reminder.author == "stranger" for reminder in reminders) else {}),
    }


@tool(requires=Permission.USER, words=("Deleting the place {name}", "Deleted the place {name}"))
async def delete_place(context: ToolContext, name: Name) -> dict[str, Any]:
    """Delete a place with its reminders.

    Example: {"name": "office"} -> "deleted": "office"
    """
    async with context.transaction() as session:
        cursor = await session.execute(statements.delete_place, {"user_id": context.user.id, "name": _plain(name)})
        if cursor.one_or_none() is None:
            raise NotFound("There is no such place.")
    return {"deleted": _plain(name)}


@tool(requires=Permission.USER, acts=False, words=("Setting a reminder for {place}", "Set a reminder for {place}"))
async def remind_at_place(
    context: ToolContext,
    place: Name,
    text: Annotated[str, Field(min_length=1, max_length=4000)],
    on: Literal["enter", "leave"] = "enter",
    repeats: bool = False,
) -> dict[str, Any]:
    """Say a text in this conversation when the person comes to a place or leaves it.

    Example: {"place": "home", "text": "Feed the bikes.", "on": "enter"} -> "reminder_id"
    """
    async with context.transaction() as session:
        place_row = (
            await session.execute(statements.find_place, {"user_id": context.user.id, "name": _plain(place)})
        ).one_or_none()
        if place_row is None:
            raise NotFound("There is no such place; save it first.")
        origin = await context.jobs.find_origin(session)
        parameters = {
            "user_id": context.user.id,
            "place_id": place_row.id,
            "conversation_id": context.conversation_id,
            "adapter": origin.adapter,
            "platform_user_id": origin.platform_user_id,
            "event": on,
            "content": clean(text),
            "author": context.author,
            "repeats": repeats,
            "most": MOST_REMINDERS,
        }
        row = (await session.execute(statements.add_reminder, parameters)).one_or_none()
    if row is None:
        raise ToolError(f"There are {MOST_REMINDERS} reminders at places already; cancel one first.")
    return {"reminder_id": row.id, "place": _plain(place), "on": on}


@tool(requires=Permission.USER, words=("Cancelling reminder {reminder_id}", "Cancelled reminder {reminder_id}"))
async def cancel_place_reminder(
    context: ToolContext, reminder_id: Annotated[int, Field(ge=1, lt=2**63)]
) -> dict[str, Any]:
    """Cancel a reminder at a place.

    Example: {"reminder_id": 1} -> "cancelled": 1
    """
    async with context.transaction() as session:
        cursor = await session.execute(statements.delete_reminder, {"user_id": context.user.id, "id": reminder_id})
        if cursor.one_or_none() is None:
            raise NotFound(what="reminder")
    return {"cancelled": reminder_id}


@tool(
    requires=Permission.GUEST,
    read_only=True,
    reads_private=True,
    words=("Looking up where you are", "Looked up where you are"),
)
async def get_position(context: ToolContext) -> dict[str, Any]:
    """Tell where the person's phone was last, and how far from their places.

    Example: {} -> "metres_to_places": {"home"
    """
    _require_direct(context)
    async with context.transaction() as session:
        current = await _get_current(session, context.user.id)
        places = (await session.execute(statements.list_coordinates, {"user_id": context.user.id})).all()
    here = (current.latitude, current.longitude)
    metres = {place.name: round(distance(here, (place.latitude, place.longitude))) for place in places}
    return {
        "latitude": current.latitude,
        "longitude": current.longitude,
        "accuracy_metres": current.accuracy_metres,
        "recorded_at": current.recorded_at.isoformat(timespec="seconds"),
        "metres_to_places": metres,
    }


@tool(requires=Permission.USER, acts=True, words=("Preparing to pair a phone", "Prepared to pair a phone"))
async def pair_phone(context: ToolContext) -> dict[str, Any]:
    """Give the person a link that connects the OwnTracks app of their phone; it opens once, for ten minutes.

    Example: {} -> /pair?code=
    """
    _require_direct(context)
    code = token_urlsafe(24)
    parameters = {"user_id": context.user.id, "hash": hash_of(code), "minutes": PAIRING_MINUTES}
    async with context.transaction() as session:
        await session.execute(statements.open_pairing, parameters)
    return {"link": f"{_base_url(context)}/modules/{context.module}/pair?code={code}"}


@route("pair", methods=("GET",))
async def open_pairing(context: ModuleContext, request: HttpRequest) -> HttpResponse:
    """Show the phone's credential to whoever opens the link first."""
    password = token_urlsafe(24)
    parameters = {"hash": hash_of(request.query.get("code", "")), "password_hash": hash_of(password)}
    async with context.transaction() as session:
        paired = (await session.execute(statements.pair_tracker, parameters)).one_or_none()
    plain = {"Content-Type": "text/plain; charset=utf-8", "Cache-Control": "no-store"}
    if paired is None:
        return HttpResponse(b"This link was opened before, or is too old. Ask for a new one.", 410, plain)
    lines = (
        "In OwnTracks choose the mode HTTP, and enter:",
        f"URL: {_base_url(context)}/modules/{context.module}/positions",
        f"User: {paired.id}",
        f"Password: {password}",
    )
    return HttpResponse("\n".join(lines).encode(), 200, plain)


@route("positions")
async def take_positions(context: ModuleContext, request: HttpRequest) -> HttpResponse:
    """Take what OwnTracks sends; only positions count."""
    scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
    try:
        user, _, password = b64decode(encoded, validate=True).decode().partition(":")
    except (Base64Error, UnicodeDecodeError, ValueError):
        user = password = ""
    is_number = scheme.lower() == "basic" and user.isascii() and user.isdecimal() and len(user) < 19
    async with context.transaction() as session:
        # There is no phone 0.
        tracker_id = await find_tracker(session, int(user) if is_number else 0, password if is_number else "")
    if tracker_id is None:
        return UNAUTHORIZED
    if (position := _read_position(request.body)) is not None:
        await take_position(context, tracker_id, position)
    return HttpResponse(b"[]", headers={"Content-Type": "application/json"})


def _read_position(body: bytes) -> Position | None:
    """Return the position of a message of OwnTracks; None for another message, `ToolError` for a wrong position."""
    try:
        payload = json.loads(body)
        if not isinstance(payload, dict) or payload.get("_type") != "location":
            return None
        latitude, longitude = float(payload["lat"]), float(payload["lon"])
        accuracy = float(payload.get("acc", UNKNOWN_ACCURACY))
        recorded_at = to_time(float(payload["tst"]))
    except (ValueError, TypeError, KeyError, OverflowError, OSError, RecursionError):
        raise ToolError("This is no message of OwnTracks.") from None
    if not (abs(latitude) <= 90 and abs(longitude) <= 180 and isfinite(accuracy) and accuracy >= 0):
        raise ToolError("This is no position.")
    return Position(latitude, longitude, accuracy=accuracy, recorded_at=recorded_at)


async def _get_current(session: Session, user_id: int) -> Any:
    current = (await session.execute(statements.find_position, {"user_id": user_id})).one_or_none()
    if current is None:
        raise ToolError("No position is known: the person's phone has to be paired first, in a direct message.")
    return current


def _require_direct(context: ToolContext) -> None:
    if not context.place.is_direct:
        raise ToolError("Where a person is, is told in direct messages only.")


def _base_url(context: ToolContext | ModuleContext) -> str:
    settings = context.app_settings
    return (settings.public_url or f"http://{settings.host}:{settings.port}").rstrip("/")


def _plain(name: str) -> str:
    plain = " ".join(clean(name).casefold().split())
    if not plain:
        raise ToolError("A place needs a name.")
    return plain
