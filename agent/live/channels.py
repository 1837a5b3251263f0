"""The channels of Postgres by which processes notify each other of turns."""

from sqlalchemy import text

# `TURNS`: a turn has new events, a text delta, or has ended. `CANCELLATIONS`: a turn should stop (its id).
# `READERS`: a process asks whether any reader waits for a message, and another process answers. `DUE`: a scheduled job
# has sent a message into a place (its key).
TURNS, CANCELLATIONS, READERS, DUE = "parley_turns", "parley_stops", "parley_readers", "parley_due"
# Sent by triggers, with the name of the table that an admin has changed.
CHANGES = "parley_changes"

NOTIFY = text("SELECT pg_notify(:channel, note) FROM unnest(CAST(:notes AS text[])) AS note")
