"""Rooms for a stay: found, priced, held, booked and cancelled, never twice."""

import asyncio
from contextlib import AsyncExitStack
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from sqlalchemy import CursorResult, text
from sqlalchemy.exc import IntegrityError

from modules import pms
from shared.db.database import Address, Database
from shared.errors import ConfirmationNeeded, NotFound, ToolError
from shared.messages import Permission
from shared.tools import Tool, ToolContext
from tests.standins.openai_api import Answer
from tests.support.clocks import SetClock
from tests.support.parley import Parley
from tests.support.tool_calls import call
from tests.support.tool_context import make_tool_context

STAY = {"check_in": "2026-12-04", "check_out": "2026-12-06"}
QUESTION = "Book “Garden”, Friday, 4 December 2026 to Sunday, 6 December 2026, 2 nights, 2 guests, for 220.50 EUR?"
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOUSE = """
INSERT INTO rooms (name, description, capacity) VALUES
    ('Garden', 'Quiet.', 2), ('Suite', 'With a balcony.', 4), ('Attic', 'Not priced.', 2), ('Cellar', 'Closed.', 2);
UPDATE rooms SET is_active = false WHERE name = 'Cellar';
INSERT INTO room_rates (room_id, days, price) VALUES
    (1, '[2026-11-01,2026-12-05)', 100), (1, '[2026-12-05,2027-02-01)', 120.5), (4, '[2026-11-01,2027-02-01)', 1);
INSERT INTO room_rates (room_id, days, price, min_nights) VALUES (2, '[2026-11-01,2027-02-01)', 200, 2);
"""


@pytest.fixture
async def house(database: Database) -> Database:
    await run(database, HOUSE)
    return database


async def run(database: Database, statements: str) -> list[Any]:
    result: list[Any] = []
    async with database.transaction() as session:
        for statement in filter(str.strip, statements.split(";")):
            cursor = await session.execute(text(statement))
            result = list(cursor.all()) if isinstance(cursor, CursorResult) and cursor.returns_rows else []
    return result


@pytest.fixture
async def ann(house: Database, tmp_path: Path) -> ToolContext:
    return await make_tool_context(house, tmp_path / "files", "pms", Permission.USER, clock=SetClock(NOON))


@pytest.fixture
async def bob(house: Database, tmp_path: Path) -> ToolContext:
    return await make_tool_context(house, tmp_path / "files", "pms", Permission.USER, clock=SetClock(NOON))


async def agreed(tool: Tool, context: ToolContext, **arguments: Any) -> Any:
    """Call a tool, and answer its question with yes."""
    with pytest.raises(ConfirmationNeeded) as confirmation:
        await call(tool, context, **arguments)
    return await call(tool, replace(context, agreed_to=confirmation.value.fields["question"]), **arguments)


async def free_rooms(context: ToolContext, **arguments: Any) -> list[tuple[str, str]]:
    availability = await call(pms.get_availability, context, **{**STAY, **arguments})
    return [(room["room"], room["total"]) for room in availability["rooms"]]


async def test_free_rooms_are_found_with_their_price_the_cheapest_first(ann: ToolContext) -> None:
    assert await call(pms.get_availability, ann, **STAY) == {
        **STAY,
        "nights": 2,
        "guests": 2,
        "rooms": [
            {"room": "Garden", "description": "Quiet.", "capacity": 2, "total": "220.50", "currency": "EUR"},
            {"room": "Suite", "description": "With a balcony.", "capacity": 4, "total": "400.00", "currency": "EUR"},
        ],
    }
    assert await free_rooms(ann, guests=3) == [("Suite", "400.00")]
    assert await free_rooms(ann, guests=9) == []
    assert await free_rooms(ann, check_out="2026-12-05") == [("Garden", "100.00")]
    assert await free_rooms(ann, check_in="2027-01-31", check_out="2027-02-02") == []
    assert await free_rooms(ann, check_in="2026-11-21", check_out="2026-11-22") == [("Garden", "100.00")]


async def test_a_quote_says_what_each_night_costs(ann: ToolContext) -> None:
    quote = await call(pms.quote, ann, room=" garden", **STAY)

    assert (quote["room"], quote["total"], quote["nights"]) == ("Garden", "220.50", 2)
    assert quote["prices"] == [
        {"first_night": "2026-12-04", "nights": 1, "price": "100.00"},
        {"first_night": "2026-12-05", "nights": 1, "price": "120.50"},
    ]


@pytest.mark.parametrize(
    ("check_in", "check_out", "reason"),
    [
        ("2026-12-04", "2026-12-04", "check_out is the day of departure, 1 to 60 days after check_in"),
        ("2026-12-06", "2026-12-04", "check_out is the day of departure"),
        ("2026-12-04", "2027-12-04", "1 to 60 days after"),
        ("2026-11-20", "2026-11-22", "from today, 2026-11-21, to 730 days ahead"),
        ("9999-12-30", "9999-12-31", "to 730 days ahead"),
    ],
)
async def test_days_that_make_no_stay_are_refused(ann: ToolContext, check_in: str, check_out: str, reason: str) -> None:
    with pytest.raises(ToolError, match=reason):
        await call(pms.get_availability, ann, check_in=check_in, check_out=check_out)


async def test_a_room_is_booked_after_the_persons_yes_and_gone_for_others(ann: ToolContext, bob: ToolContext) -> None:
    with pytest.raises(ConfirmationNeeded) as confirmation:
        await call(pms.book, ann, room="Garden", **STAY)
    assert confirmation.value.fields["question"] == QUESTION
    assert await free_rooms(bob) == [("Garden", "220.50"), ("Suite", "400.00")]

    booked = await call(pms.book, replace(ann, agreed_to=QUESTION), room="Garden", **STAY)

    assert (booked["status"], booked["total"]) == ("booked", "220.50")
    assert await free_rooms(bob) == [("Suite", "400.00")]
    assert await free_rooms(bob, check_in="2026-12-06", check_out="2026-12-07") == [("Garden", "120.50")]
    with pytest.raises(ToolError, match="Garden is not free for Friday, 4 December 2026") as excinfo:
        await call(pms.book, bob, room="Garden", **STAY)
    assert excinfo.value.fields == {"available_rooms": ["Suite"]}
    assert [booking["booking_id"] for booking in (await call(pms.list_bookings, ann))["bookings"]] == [
        booked["booking_id"]
    ]


async def test_a_changed_price_is_asked_anew(ann: ToolContext, house: Database) -> None:
    await run(house, "UPDATE room_rates SET price = 150 WHERE room_id = 1")

    with pytest.raises(ConfirmationNeeded) as confirmation:
        await call(pms.book, replace(ann, agreed_to=QUESTION), room="Garden", **STAY)
    assert "for 300.00 EUR" in confirmation.value.fields["question"]


async def test_a_hold_keeps_the_room_for_its_person_until_it_ends(
    ann: ToolContext, bob: ToolContext, house: Database
) -> None:
    hold = await call(pms.hold, ann, room="Garden", **STAY)
    assert (hold["status"], await free_rooms(bob)) == ("held", [("Suite", "400.00")])
    assert (await free_rooms(ann))[0] == ("Garden", "220.50")
    again = await call(pms.hold, ann, room="Garden", **STAY)
    assert again["booking_id"] != hold["booking_id"]

    await run(house, "UPDATE bookings SET held_until = now() - interval '1 second' WHERE status = 'held'")
    assert (await free_rooms(bob))[0] == ("Garden", "220.50")
    assert (await call(pms.list_bookings, ann))["bookings"] == []
    booking = await agreed(pms.book, bob, room="Garden", **STAY)
    assert booking["status"] == "booked"
    assert await run(house, "SELECT status, count(*) FROM bookings GROUP BY 1 ORDER BY 1") == [
        ("booked", 1),
        ("cancelled", 2),
    ]


async def test_the_own_hold_becomes_the_booking(ann: ToolContext, house: Database) -> None:
    await call(pms.hold, ann, room="Garden", **STAY)
    await agreed(pms.book, ann, room="Garden", **STAY)

    assert await run(house, "SELECT status FROM bookings WHERE status <> 'cancelled'") == [("booked",)]


async def test_a_person_holds_few_rooms_at_a_time_also_at_once(ann: ToolContext) -> None:
    days = [date(2026, 12, 1) + timedelta(days=2 * number) for number in range(8)]
    holds = [
        call(pms.hold, ann, room="Suite", check_in=str(day), check_out=str(day + timedelta(days=2))) for day in days
    ]
    results = await asyncio.gather(*holds, return_exceptions=True)

    assert sum(isinstance(result, dict) for result in results) == 3
    assert {str(result) for result in results if isinstance(result, Exception)} == {
        "A person holds at most 3 rooms at a time; book or cancel one first."
    }


async def test_a_booking_is_cancelled_by_its_person_after_a_yes_and_the_room_is_free_again(
    ann: ToolContext, bob: ToolContext
) -> None:
    booked = await agreed(pms.book, ann, room="Garden", **STAY)
    for wrong in (booked["booking_id"] + 1, 0, -1, 10**30):
        with pytest.raises(NotFound, match="There is no booking with that id"):
            await call(pms.cancel, ann, booking_id=wrong)
    with pytest.raises(NotFound, match="There is no booking with that id"):
        await call(pms.cancel, bob, booking_id=booked["booking_id"])

    cancelled = await agreed(pms.cancel, ann, booking_id=booked["booking_id"])

    assert cancelled["status"] == "cancelled"
    assert (await free_rooms(bob))[0] == ("Garden", "220.50")
    with pytest.raises(NotFound):
        await call(pms.cancel, ann, booking_id=booked["booking_id"])
    hold = await call(pms.hold, ann, room="Garden", **STAY)
    assert (await call(pms.cancel, ann, booking_id=hold["booking_id"]))["status"] == "cancelled"


async def test_a_stay_that_has_begun_is_not_cancelled(ann: ToolContext) -> None:
    booked = await agreed(pms.book, ann, room="Garden", check_in="2026-11-21", check_out="2026-11-23")

    with pytest.raises(ToolError, match="has begun"):
        await call(pms.cancel, ann, booking_id=booked["booking_id"])


async def test_of_many_who_book_the_last_room_at_once_one_gets_it(
    house: Database, address: Address, tmp_path: Path
) -> None:
    async with AsyncExitStack() as closing:
        guests = []
        for number in range(6):
            # A pool of its own, as in another worker.
            pool = Database(address, pool_size=2)
            closing.push_async_callback(pool.close)
            folder = tmp_path / str(number)
            guest = await make_tool_context(pool, folder, "pms", Permission.USER, clock=SetClock(NOON))
            guests.append(replace(guest, agreed_to=QUESTION))
        results = await asyncio.gather(
            *(call(pms.book, guest, room="Garden", **STAY) for guest in guests), return_exceptions=True
        )

    assert [result["status"] for result in results if isinstance(result, dict)] == ["booked"]
    lost = [result for result in results if not isinstance(result, dict)]
    assert all(isinstance(result, ToolError) for result in lost), lost
    assert await run(house, "SELECT count(*) FROM bookings") == [(1,)]


async def test_the_table_itself_refuses_a_second_booking_and_a_second_price(house: Database) -> None:
    await run(house, "INSERT INTO bookings (room_id, stay) VALUES (1, '[2026-12-04,2026-12-06)')")
    for wrong, constraint in (
        ("INSERT INTO bookings (room_id, stay) VALUES (1, '[2026-12-05,2026-12-08)')", "a_room_is_booked_once"),
        ("INSERT INTO bookings (room_id, stay) VALUES (1, '[2026-12-04,2026-12-04)')", "stay_has_both_days"),
        ("INSERT INTO bookings (room_id, stay) VALUES (1, '[2027-01-04,)')", "stay_has_both_days"),
        ("INSERT INTO bookings (room_id, stay, status) VALUES (2, '[2027-01-04,2027-01-05)', 'held')", "held_until"),
        (
            "INSERT INTO room_rates (room_id, days, price) VALUES (1, '[2026-12-24,2026-12-27)', 300)",
            "one_rate_for_each",
        ),
        ("INSERT INTO rooms (name) VALUES ('GARDEN')", "uq_rooms_name"),
        ("INSERT INTO rooms (name, currency) VALUES ('x', 'euro')", "three_capital_letters"),
    ):
        with pytest.raises(IntegrityError, match=constraint):
            await run(house, wrong)
    await run(house, "INSERT INTO bookings (room_id, stay) VALUES (1, '[2026-12-06,2026-12-08)')")


WISHES = st.lists(
    st.tuples(st.sampled_from(["Garden", "Suite"]), st.integers(0, 12), st.integers(1, 5), st.booleans()),
    min_size=2,
    max_size=8,
)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wishes=WISHES)
async def test_no_night_of_a_room_is_ever_given_twice(
    ann: ToolContext, bob: ToolContext, house: Database, wishes: list[tuple[str, int, int, bool]]
) -> None:
    await run(house, "DELETE FROM bookings")

    async def wish(room: str, start: int, nights: int, *, is_ann: bool) -> None:
        first = date(2026, 12, 1) + timedelta(days=start)
        arguments = {"room": room, "check_in": str(first), "check_out": str(first + timedelta(days=nights))}
        try:
            await agreed(pms.book, ann if is_ann else bob, **arguments)
        except (ToolError, pytest.fail.Exception):
            return

    await asyncio.gather(*(wish(room, start, nights, is_ann=is_ann) for room, start, nights, is_ann in wishes))

    twice = (
        "SELECT count(*) FROM bookings a JOIN bookings b ON a.id < b.id AND a.room_id = b.room_id AND a.stay && b.stay"
    )
    assert await run(house, twice) == [(0,)]
    # The suite is let for two nights at least.
    is_possible = any(room == "Garden" or nights > 1 for room, _, nights, _ in wishes)
    assert await run(house, "SELECT count(*) > 0 FROM bookings") == [(is_possible,)]


async def test_a_guest_sees_prices_and_books_nothing_and_a_user_books_with_a_yes(
    parley: Parley, database: Database
) -> None:
    tomorrow = datetime.now(UTC).date() + timedelta(days=1)
    stay = {"check_in": str(tomorrow), "check_out": str(tomorrow + timedelta(days=2))}
    await run(database, "INSERT INTO rooms (name) VALUES ('Garden')")
    await run(database, "INSERT INTO room_rates (room_id, days, price) VALUES (1, '[2026-01-01,2999-01-01)', 50)")
    await run(
        database,
        "INSERT INTO personas (name, system_prompt, is_default, allowed_modules)"
        " VALUES ('Host', 'You let rooms.', true, '[\"pms\"]')",
    )
    booking = ("pms__book", {"room": "Garden", **stay})
    parley.model.play([Answer(tool_calls=[booking]), Answer("Guests can't.")])
    assert (await parley.ask("Book the garden room")).content == "Guests can't."
    tool_names = [tool["function"]["name"] for tool in parley.model.requests[-1].body["tools"]]
    assert {name for name in tool_names if name.startswith("pms__")} == {"pms__get_availability", "pms__quote"}

    await parley.sql("UPDATE users SET permission_level = 'user', token_budget_monthly = NULL")
    parley.model.play([Answer(tool_calls=[booking]), Answer("Welcome.")])
    question = await parley.ask("Book the garden room")
    assert "2 nights, 2 guests, for 100.00 EUR?" in question.content
    assert await parley.value("SELECT count(*) FROM bookings") == 0

    assert (await parley.ask("yes")).content.endswith("Welcome.")
    assert await parley.value("SELECT count(*) FROM bookings WHERE status = 'booked'") == 1
