"""Notices that a limit has reached 50, 80 or 100 percent, once each in a period.

The database lists them in `budget_notices` with the call that reached the threshold, so that turns need no statement
more. The person reads about their own limits, the owners about all others.
"""

from agent.commands.grants.limits import Limit, find_limit
from agent.commands.grants.people import list_owners, to_notice
from agent.prompts import prompts
from agent.queue.inbox import accept_within
from shared.db.database import Database
from shared.db.statements import load_statements
from shared.log import get_logger

statements = load_statements(__file__)


log = get_logger()


async def send_notices(database: Database) -> int:
    """Send the notices that are listed, in the transaction that takes them off the list; return how many there were."""
    async with database.transaction() as session:
        rows = (await session.execute(statements.take_notices)).all()
        messages = []
        for row in rows:
            limit = await find_limit(session, row.limit_table, row.limit_id)
            if limit is None:
                continue
            people = [row.user_id] if row.user_id is not None else await list_owners(session)
            text = describe(limit, row.percent, is_own=row.user_id is not None)
            notices = [await to_notice(session, person, text, event_id=f"limit:{row.id}") for person in people]
            deliveries = [notice for notice in notices if notice is not None]
            messages += deliveries
            # Whoever never wrote directly is told by `parley budget list` and admin.budgets alone.
            log.info(
                "budget_notice",
                limit=f"{row.limit_table} {row.limit_id}",
                percent=row.percent,
                told=len(deliveries),
            )
        await accept_within(session, *messages)
    return len(rows)


def describe(limit: Limit, percent: int, *, is_own: bool) -> str:
    """Return what is said about a limit that has reached so many percent."""
    texts = prompts().budgets
    whose = texts.own if is_own else texts.of.format(title=limit.title)
    return texts.notice.format(percent=percent, whose=whose, used=limit.shown_use, renews_on=limit.resets_at)
