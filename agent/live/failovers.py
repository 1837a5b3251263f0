"""Tells the operator of failovers of the database, and what this process knows to be lost; lets platforms catch up."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from shared.db.database import DatabaseLost
from shared.db.history import Evidence, Loss
from shared.db.single import SessionSource
from shared.db.statements import load_statements
from shared.log import get_logger

statements = load_statements(__file__)

# The last commit that the promoted server has is of the clock of the one before.
CLOCKS_APART = timedelta(seconds=15)

log = get_logger()

Observer = Callable[[datetime], None]


class Failovers:
    """Reports the failovers that this process has met.

    Whoever can read messages again `observes`.
    """

    def __init__(self, database: SessionSource) -> None:
        self._database = database
        self._observers: list[Observer] = []

    @contextmanager
    def observed(self, observer: Observer) -> Iterator[None]:
        """For the block, call this after a failover, with the time from which on messages may be lost."""
        self._observers.append(observer)
        try:
            yield
        finally:
            self._observers.remove(observer)

    async def report(self) -> None:
        """Report what has not been reported yet; raises `DatabaseLost`, and then it is reported the next time."""
        with self._database.witness.taken() as failovers:
            for evidence in failovers:
                await self._report(evidence)

    async def _report(self, evidence: Evidence) -> None:
        parameters = {
            "history_id": evidence.after.id,
            "turn_ids": [turn_id for turn_id, _ in evidence.turns],
            "costs": [cost for _, cost in evidence.turns],
            "message_ids": list(evidence.messages),
            "seen_lsn": None if evidence.last is None else evidence.last.lsn,
            "seen_at": None if evidence.last is None else evidence.last.seen_at,
        }
        async with self._database.statement() as session:
            row = (await session.execute(statements.report_loss, parameters)).one()
        if row.lost_bytes is None:
            # A pooler led to a server that is not in this history.
            raise DatabaseLost
        loss = Loss(timeline=evidence.after.timeline, created_at=evidence.after.created_at, **row)
        tell = log.error if loss.may_be else log.warning
        tell(
            "database_failed_over",
            summary=str(loss),
            timeline=evidence.after.timeline,
            former_timeline=evidence.before.timeline,
            lost_answers=loss.answers,
            lost_messages=loss.messages,
            lost_bytes=int(loss.lost_bytes),
        )
        self.tell(loss.replayed_at or evidence.after.created_at)

    def tell(self, last_commit: datetime) -> None:
        """Tell the observers of a failover; `last_commit` is the last that it has not lost."""
        for observer in list(self._observers):
            observer(last_commit - CLOCKS_APART)
