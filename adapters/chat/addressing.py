"""To whom a message in a shared place is addressed: what people say to each other is read, not answered."""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from cachetools import FIFOCache
from msgspec import Struct

from shared.db.batching import BatchLoader
from shared.db.statements import load_statements
from shared.errors import ServerMoved

statements = load_statements(__file__)

if TYPE_CHECKING:
    from adapters.cells.routes import Cells
    from shared.db.database import Database
    from shared.messages import Place

MOST_REMEMBERED, MOST_PLACES = 10_000, 1000
# Whoever was addressed answers within this time; what they write later is said to everybody.
ANSWER_WITHIN = timedelta(minutes=10)

Id = TypeVar("Id", bound=Hashable)
Entry = TypeVar("Entry")


class Addressing(Struct, frozen=True):
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
        self._addressed: FIFOCache[tuple[str, str], tuple[Addressing, str | None]] = FIFOCache(MOST_REMEMBERED)

    def is_for_agent(self, addressing: Addressing, place: "Place", rule: "Rule", *, takes_part: bool) -> bool:
        """Return whether the agent answers a message; `takes_part`: the place is a thread in which it has answered.

        `rule` is what `Rules.find` returns for the place.
        """
        if place.is_direct:
            return True
        if rule.mode == "off" or not (rule.mode == "always" or takes_part or addressing.calls_agent):
            return False
        return rule.answers_others or not self.is_between_people(addressing)

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
        return is_reply or bool(addressing.others)


class Rule(NamedTuple):
    """What is set for a place, and whether the agent `is_known` there, by which adapter.

    `state`: that of its server in this cell; None where it has never moved.
    """

    mode: str
    thread_per_question: bool
    answers_others: bool
    is_known: bool
    adapter: str | None
    state: str | None


class Rules:
    """The modes of places; many that are asked for at once cost one statement. `cells`: those behind this door."""

    def __init__(self, database: "Database", cells: "Cells | None" = None) -> None:
        self._database, self._cells = database, cells
        self._loaders: dict[Database, BatchLoader[Place, Rule]] = {}

    async def find(self, place: "Place") -> Rule:
        """Return what is set for a place; raises `ServerMoved` where its server has left the cell that is asked."""
        if self._cells is None:
            return await self._load(self._database, place)
        rules = [await self._load(app.database, place) for app in self._cells.list_apps(place)]
        if any(rule.state == "moved" for rule in rules):
            # What was known of its way is old, and nothing is set there any more.
            raise ServerMoved
        # Of a server on its way, what is set is where its rows are; its newest messages may be where it goes.
        rule = next((rule for rule in rules if rule.state != "returning"), rules[0])
        known = next((rule for rule in rules if rule.is_known), rule)
        return rule._replace(is_known=known.is_known, adapter=known.adapter)

    async def _load(self, database: "Database", place: "Place") -> Rule:
        if database not in self._loaders:
            self._loaders[database] = BatchLoader(partial(self._list, database))
        return await self._loaders[database].load(place)

    async def _list(self, database: "Database", places: Sequence["Place"]) -> Sequence[Rule]:
        parameters = {
            "platforms": [place.platform for place in places],
            "servers": [place.server for place in places],
            "channels": [place.channel for place in places],
            "threads": [place.thread for place in places],
            "place_keys": [place.key for place in places],
        }
        async with database.statement() as session:
            return [Rule(*row) for row in (await session.execute(statements.list_rules, parameters)).all()]


class Recent(Generic[Id, Entry]):
    """The latest messages of each channel or thread by their ids: context for the next question there; in memory."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._places: FIFOCache[tuple[Id, Id | None], dict[Id, Entry]] = FIFOCache(MOST_PLACES)

    def remember(self, channel: Id, message: Id, entry: Entry, *, thread: Id | None = None) -> None:
        """Keep a message, unless it is kept already."""
        entries = self._places[channel, thread] = self._places.get((channel, thread), {})
        entries.setdefault(message, entry)
        if len(entries) > self._most:
            del entries[next(iter(entries))]

    def list_entries(self, channel: Id, thread: Id | None = None) -> Mapping[Id, Entry]:
        """Return the messages of a place, the oldest first."""
        return self._places.get((channel, thread), {})

    def change(self, channel: Id, messages: Collection[Id], to: Callable[[Entry], Entry]) -> None:
        """Apply an edit to what is kept."""
        for entries in self._list_places(channel):
            entries.update({message: to(entries[message]) for message in messages if message in entries})

    def forget(self, channel: Id, messages: Collection[Id]) -> None:
        """Drop deleted messages."""
        for entries in self._list_places(channel):
            for message in messages:
                entries.pop(message, None)

    def clear(self, channel: Id, thread: Id | None = None) -> None:
        """Drop what is kept of a place: the conversation contains it now."""
        self._places.pop((channel, thread), None)

    def _list_places(self, channel: Id) -> list[dict[Id, Entry]]:
        return [entries for (place, _), entries in self._places.items() if place == channel]
