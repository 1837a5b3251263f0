"""The outbox: a reply is stored in the transaction that ends its turn, then delivered at once.

Callers of adapters without a sender (web, terminal, HTTP, A2A) read the answer themselves: committing it counts as the
delivery.
"""

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import asdict, replace

from agent.people.hops import installation_id
from agent.prompts import prompts
from shared.db.batching import BatchLoader
from shared.db.database import Database, DatabaseLost
from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.errors import ClaimLost, Unavailable, Undeliverable
from shared.log import get_logger
from shared.messages import Place, ReplyFile, to_fields
from shared.settings import Secrets
from shared.tasks import repeated
from shared.tracing.spans import Attributes, is_tracing, span, span_of

statements = load_statements(__file__)

# The lease is renewed during a delivery; if the sender dies, another process can claim the reply after this time.
LEASE_SECONDS = 12
RENEW_SECONDS = 4
# After so long, an answer is of no use any more, unless the settings say otherwise.
DELIVERY_HOURS = 24.0
# How many replies one statement claims. A reply that is older than LATE_SECONDS when it is sent says so.
MOST_CLAIMED, LATE_SECONDS = 20, 600.0
# How long a claim is certain to be valid: half its lease, because the database counts it with another clock.
CERTAIN_SECONDS = LEASE_SECONDS / 2
BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

log = get_logger()


# `reply_to` of an answer for one person alone: this, the person's account there, a blank, and the message that it
# answers. Accounts and messages of Matrix have colons, and none has blanks.
DIRECT = "direct:"


def to_key(secrets: Secrets, *identity: object) -> str:
    """Return the key of what this identity names in this installation, of which a platform makes one message."""
    text = json.dumps([installation_id(secrets), *identity])
    return hashlib.sha256(text.encode()).hexdigest()


def boot_seconds() -> float:
    """Return the seconds of a clock that never goes backwards, and that also runs while the machine is suspended."""
    return time.clock_gettime(BOOT_CLOCK)


class Claim(Struct):
    """This process's claim on a reply, the `number`-th one of that reply, made at `made_at` of `boot_seconds`.

    The reply was then `age` seconds old.

    A process that was frozen may hold a claim that has expired, so senders call `check` just before they post.
    """

    database: Database
    reply_id: int
    number: int
    made_at: float
    age: float = 0.0

    async def check(self) -> None:
        """Make sure that no other process sends the reply; raises `ClaimLost` when one has claimed it.

        Asks the database only when the claim is not certain to be valid, so that this costs nothing as a rule.
        """
        if boot_seconds() - self.made_at > CERTAIN_SECONDS:
            await self.renew()

    async def renew(self) -> None:
        """Extend the claim; raises `ClaimLost` when another process has claimed the reply, or has delivered it."""
        now = boot_seconds()
        async with self.database.statement() as session:
            values = {"id": self.reply_id, "attempts": self.number, "lease": LEASE_SECONDS}
            if (await session.execute(statements.renew_claim, values)).one_or_none() is None:
                raise ClaimLost
        self.made_at = now


class DeliveryInfo(Struct, frozen=True):
    """What affects the delivery of a turn's reply; the defaults are those of a reply without a turn.

    `asker`: the platform's id of the user who wrote the last message. `was_edited`: that message was edited after the
    turn had begun. `was_resumed`: an attempt of the turn ended with its process, perhaps after it had posted.
    `is_withdrawn`: the question was deleted while the turn was running, so nothing is posted and the live message goes.
    `has_open_question`: somebody there is asked for a yes and may still answer; None where nobody was asked of late.
    `live_message_id`: the platform's id of the message that showed the answer while it was written.
    `key_text`: the text by which the platform recognises the reply, where that is not its own.
    """

    allows_mentions: bool = False
    status: str = "answered"
    asker: str | None = None
    was_edited: bool = False
    was_resumed: bool = False
    is_withdrawn: bool = False
    has_open_question: bool | None = None
    live_message_id: str | None = None
    key_text: str | None = None


class Reply(Struct, frozen=True):
    """A reply and its destination; `turn_id` is 0 if no turn could begin. All delivery attempts use the same `nonce`.

    Senders check the `claim` before each post.
    """

    id: int
    turn_id: int
    adapter: str
    place: Place
    reply_to: str | None
    content: str
    files: tuple[ReplyFile, ...]
    choices: tuple[str, ...] = ()
    delivery: DeliveryInfo = DeliveryInfo()
    claim: Claim | None = None

    @property
    def age(self) -> float:
        """Return the seconds since the reply was stored, as of its claim."""
        return 0.0 if self.claim is None else self.claim.age

    @property
    def was_tried(self) -> bool:
        """Return whether an earlier delivery may have succeeded without being recorded."""
        return self.claim is not None and self.claim.number > 0

    async def in_direct(
        self, open_direct: Callable[[str], Awaitable[str]], *, where: str, server: str | None = None
    ) -> "Reply":
        """Return what is for one person as a reply to them in direct messages; any other is as it was.

        `open_direct` returns their channel, where the reply is not there already; then it says of which place it is,
        `where`.
        """
        if self.reply_to is None or not self.reply_to.startswith(DIRECT):
            return self
        account, _, message_id = self.reply_to.removeprefix(DIRECT).rpartition(" ")
        place, content = self.place, self.content
        if not place.is_direct:
            place = Place(place.platform, server, await open_direct(account), is_direct=True)
            # What was said in another channel can't be replied to there, and "here" would be another place.
            message_id, content = "", f"About {where}\n\n{content}"
        delivery = replace(self.delivery, asker=account)
        return replace(self, place=place, reply_to=message_id or None, content=content, delivery=delivery)

    @property
    def nonce(self) -> str:
        """Return the idempotency key, by which a platform recognises a reply that it has already received."""
        return f"parley-{self.id}"

    def to_row(self, lease: float | None) -> dict[str, Any]:
        """Return its row as `parley_close_turn` takes it; this worker claims it for `lease` seconds, None for none."""
        return {
            "adapter": self.adapter,
            **asdict(self.place),
            "place_key": self.place.key,
            "reply_to": self.reply_to,
            "content": self.content,
            "files": [to_fields(file) for file in self.files],
            "choices": list(self.choices),
            "status": "delivered" if lease is None else "claimed",
            "lease": lease,
        }

    async def check_claim(self) -> None:
        """Call this just before the reply is posted; raises `ClaimLost` when another process sends it."""
        if self.claim is not None:
            await self.claim.check()


class ReplySender(Protocol):
    """Delivers the replies of one adapter."""

    async def send(self, reply: Reply) -> str | None:
        """Post the reply and return the platform's message id.

        Calls `reply.check_claim` just before each post, after all waits for rate limits. Raises `Unavailable` if the
        delivery should be retried, `Undeliverable` if it should not.
        """
        ...

    def outage_scope(self, place: Place) -> str:
        """Return which part of the platform is away when it does not answer for this place; empty for all of it."""
        ...


Senders = Mapping[str, ReplySender]


class Outbox:
    """Delivers the replies of a process; deliveries that end while others are being recorded are recorded together."""

    def __init__(self, database: Database, senders: Senders, hours: float = DELIVERY_HOURS) -> None:
        """Deliver with these senders; a reply that is `hours` old is not tried again."""
        self.senders = senders
        self._database, self._hours = database, hours
        self._recording = BatchLoader(self._record)

    async def deliver(self, reply: Reply, job_id: int | None = None) -> bool | None:
        """Send a reply that this process has claimed; a failure is recorded, and the sweeper retries it.

        The job of its turn ends with the delivery: returns whether the next turn of its place waits, None if it has not
        ended.
        """
        sender = self.senders.get(reply.adapter)
        if sender is None:
            await self.mark_failed(reply, "no sender in this process")
            return None
        if reply.age > LATE_SECONDS:
            reply = replace(reply, content=f"{late_note()}{reply.content}")
        lease = reply.claim
        attributes: Attributes = {
            "parley.adapter": reply.adapter,
            "parley.turn.id": reply.turn_id,
            "parley.reply.id": reply.id,
        }
        try:
            with span(f"deliver {reply.adapter}", attributes, kind="client"):
                # Ends when the claim is lost; then `Claim.check` finds that out as well.
                async with nullcontext() if lease is None else repeated(partial(_renew, lease), RENEW_SECONDS):
                    await reply.check_claim()
                    message_id = await sender.send(reply)
        except ClaimLost:
            log.info("reply_sent_by_another_process", reply=reply.id)
        except Unavailable as error:
            log.warning("delivery_failed", reply=reply.id, adapter=reply.adapter, cause=str(error.__cause__ or error))
            # Who asks to wait is there.
            scope = sender.outage_scope(reply.place) if error.retry_after is None else None
            await self.mark_failed(reply, str(error), wait=error.retry_after or 0, scope=scope)
        except Undeliverable as error:
            log.error("reply_undeliverable", reply=reply.id, adapter=reply.adapter, cause=str(error))
            await self.mark_failed(reply, str(error), is_final=True)
        else:
            return await self._recording.load((reply.id, message_id, job_id))
        return None

    async def sweep(self) -> None:
        """Deliver the replies that earlier deliveries have left open, for the adapters that have a sender here."""
        if not self.senders:
            return
        while True:
            # One round, with at most one reply of each place.
            claimed_at = boot_seconds()
            async with self._database.transaction() as session:
                claimed = await claim(session, list(self.senders), self._hours)
                replies = [(reply, row) for reply, row in claimed if reply is not None]
                first: dict[int, int] = {}
                if is_tracing():
                    # The first inbox row of each turn names its trace.
                    turn_ids = [reply.turn_id for reply, _ in replies]
                    rows = (await session.execute(statements.list_first_messages, {"turn_ids": turn_ids})).all()
                    first = {row.turn_id: row.inbox_id for row in rows}
            for reply, row in claimed:
                if reply is None and row.status == "claimed":
                    await self._fail(row.id, row.attempts, "the stored reply can't be read", is_final=True)
            delivering = []
            for reply, row in replies:
                lease = Claim(self._database, reply.id, row.attempts, made_at=claimed_at, age=float(row.age))
                delivering.append(self._deliver_again(replace(reply, claim=lease), first.get(reply.turn_id)))
            for outcome in await asyncio.gather(*delivering, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    raise outcome
            # Until nothing is left: when a platform is back, all that has waited for it goes at once.
            if not claimed:
                return

    async def mark_failed(
        self, reply: Reply, error: str, *, is_final: bool = False, wait: float = 0, scope: str | None = None
    ) -> None:
        """Record why a delivery failed; when it is of no use any more, or with `is_final`, it is not retried.

        `wait` is for how many seconds the platform wants to be left alone; `scope`: which part of it did not answer.
        No effect when another process has claimed the reply.
        """
        number = reply.claim.number if reply.claim is not None else 0
        await self._fail(reply.id, number, error, is_final=is_final, wait=wait, scope=scope)

    async def _fail(
        self,
        reply_id: int,
        number: int,
        error: str,
        *,
        is_final: bool = False,
        wait: float = 0,
        scope: str | None = None,
    ) -> None:
        claimed = {"id": reply_id, "attempts": number}
        failure = {"error": error, "is_final": is_final, "wait": wait, "hours": self._hours, "scope": scope}
        async with self._database.transaction() as session:
            await session.execute(statements.fail_reply, claimed | failure)

    async def _deliver_again(self, reply: Reply, inbox_id: int | None) -> None:
        attributes = {"parley.turn.id": reply.turn_id}
        with nullcontext() if inbox_id is None else span_of(inbox_id, "deliver_again", attributes):
            await self.deliver(reply)

    async def _record(self, deliveries: Sequence[tuple[int, str | None, int | None]]) -> list[bool | None]:
        # The platform has accepted these replies.
        ids, message_ids, job_ids = map(list, zip(*deliveries, strict=True))
        parameters = {"ids": ids, "message_ids": message_ids, "job_ids": [each for each in job_ids if each is not None]}
        async with self._database.statement() as session:
            rows = (await session.execute(statements.mark_delivered, parameters)).all()
        has_next = {row.job_id: row.has_next for row in rows}
        return [has_next.get(job_id) for job_id in job_ids]


async def _renew(claim: Claim) -> None:
    with suppress(DatabaseLost):
        await claim.renew()


def late_note() -> str:
    """Return what stands before the text of a reply that is sent late."""
    return f"{prompts().turn.late}\n\n"


def without_late_note(content: str) -> str:
    """Return a reply's text without what says that it is late, for one that was posted in time after all."""
    return content.replace(late_note(), "", 1)


async def claim(
    session: Session, adapters: Sequence[str], hours: float = DELIVERY_HOURS
) -> list[tuple[Reply | None, Any]]:
    """Claim replies that wait for their delivery, for these adapters; return each with its row.

    The reply is None if it was older than `hours` and has failed instead, or if it can't be read.
    """
    limits = {"limit": MOST_CLAIMED, "lease": LEASE_SECONDS, "hours": hours}
    rows = (await session.execute(statements.claim_replies, {"adapters": list(adapters)} | limits)).all()
    replies: list[tuple[Reply | None, Any]] = []
    for row in rows:
        reply = None
        try:
            reply = to_reply(row) if row.status == "claimed" else None
        except (TypeError, ValueError, KeyError) as error:
            # The others of its batch are sent.
            log.error("reply_unreadable", reply=row.id, adapter=row.adapter, cause=repr(error))
        replies.append((reply, row))
    return replies


def to_reply(row: Any) -> Reply:
    """Return the reply of an outbox row whose earlier delivery is unfinished."""
    place = Place.from_row(row)
    files = tuple(ReplyFile(**file) for file in row.files)
    return Reply(
        id=row.id,
        turn_id=row.turn_id or 0,
        adapter=row.adapter,
        place=place,
        reply_to=row.reply_to,
        content=row.content,
        files=files,
        choices=tuple(row.choices),
        delivery=to_delivery(row, row.turn_status) if row.turn_id else DeliveryInfo(),
    )


def to_delivery(row: Any, status: str) -> DeliveryInfo:
    """Return the delivery info of a row of `parley_find_delivery`, for a turn that ends with this status."""
    return DeliveryInfo(
        allows_mentions=row.allows_mentions,
        status=status,
        asker=row.asker,
        was_edited=row.was_edited,
        was_resumed=row.was_resumed,
        is_withdrawn=row.is_withdrawn,
        has_open_question=row.has_open_question,
        live_message_id=row.live_message_id,
    )
