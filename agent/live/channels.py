"""The channels of Postgres by which processes notify each other of turns, and the request to stop one."""

from dataclasses import asdict

from shared.db.database import Database
from shared.db.statements import load_statements
from shared.messages import Place

statements = load_statements(__file__)

# `TURNS`: a turn has new events, a text delta, or has ended. `CANCELLATIONS`: a turn should stop (its id).
# `READERS`: a process asks whether any reader waits for a message, and another process answers. `DUE`: a scheduled job
# has sent a message into a place (its key).
TURNS, CANCELLATIONS, READERS, DUE = "parley_turns", "parley_stops", "parley_readers", "parley_due"
# Sent by triggers, with the name of the table that an admin has changed.
CHANGES = "parley_changes"


async def request_stop(database: Database, place: Place, user_id: int | None) -> bool:
    """Request that the running turn in a place stops; returns whether there was one.

    With `user_id` only a turn of this user is stopped, with None the turn of any user.
    """
    parameters = asdict(place) | {"user_id": user_id, "stops": CANCELLATIONS}
    async with database.transaction() as session:
        return bool((await session.execute(statements.request_stop, parameters)).all())
