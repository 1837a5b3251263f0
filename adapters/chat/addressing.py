"""To whom a message in a shared place is addressed: what people say to each other is read, not answered."""

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from shared.db.statements import load_statements

statements = load_statements(__file__)

if TYPE_CHECKING:
    from shared.db.database import Database
    from shared.messages import Place

MOST_REMEMBERED = 10_000
# Whoever was addressed answers within this time; what they write later is said to everybody.
ANSWER_WITHIN = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Addressing:
    """Whom a message mentions or replies to, without its author.

    Everybody (`@everyone`, `@here`, `@channel`) is nobody in particular; a group or role is somebody else, unless it is
    the agent's own. A reply to the agent calls the agent, whomever else it mentions.
    """

    place: str
    message: str
    author: str
    sent_at: datetime
    calls_agent: bool
    others: Collection[str]


class Exchanges:
    """Recognises what is said between people in a place, the next message of a person who was addressed included.

    Messages are named by ids that grow with time. It is in memory: after a restart, or ANSWER_WITHIN later, a person's
    bare answer to another counts as said to everybody.
    """

    def __init__(self) -> None:
        # By place and person: the message that addresses them, and the id of their own next one.
        self._addressed: OrderedDict[tuple[str, str], tuple[Addressing, str | None]] = OrderedDict()

    def is_between_people(self, addressing: Addressing) -> bool:
        """Return whether a message is for somebody else than the agent; a repeated event gets the same result."""
        if addressing.calls_agent:
            return False
        is_reply, exchange = False, (addressing.place, addressing.author)
        since, reply = self._addressed.get(exchange, (None, None))
        if (
            since is not None
            and addressing.message > since.message
            and addressing.sent_at - since.sent_at <= ANSWER_WITHIN
        ):
            is_reply = reply in (None, addressing.message)
            if reply is None:
                self._addressed[exchange] = (since, addressing.message)
        for person in addressing.others:
            key = (addressing.place, person)
            before = self._addressed.get(key)
            if before is None or addressing.message > before[0].message:
                self._addressed[key] = (addressing, None)
                self._addressed.move_to_end(key)
        while len(self._addressed) > MOST_REMEMBERED:
            self._addressed.popitem(last=False)
        return is_reply or bool(addressing.others)


async def find_rule(database: "Database", place: "Place") -> Any:
    """Return the mode of a place, `thread_per_question`, `answers_others`, and whether the agent `is_known` there."""
    parameters = {
        "platform": place.platform,
        "server": place.server or "",
        "channel": place.channel,
        "thread": place.thread or "",
        "known_server": place.server,
        "known_thread": place.thread,
        "place_key": place.key,
    }
    async with database.statement() as session:
        return (await session.execute(statements.find_rule, parameters)).one()
