"""The way of a reply: to its place or to one person alone; later while the platform is away; a notice if refused."""

import json
from abc import abstractmethod
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from adapters.base import ChatPlatform
from agent.queue.outbox import DIRECT, DeliveryInfo, Reply, to_key
from shared.db.database import DatabaseLost
from shared.db.statements import load_statements
from shared.errors import ParleyError, Unavailable, Undeliverable
from shared.log import get_logger
from shared.messages import Place
from shared.settings import Secrets

statements = load_statements(__file__)

if TYPE_CHECKING:
    from agent.app import App
    from agent.commands import CommandReply
    from agent.live.announcer import LiveTurn

AGAIN_SECONDS = 2
AGAIN = "I could not answer in time; please give the command again."
NOTICE = "I have an answer for you in {where}, but {reason}."
# The kinds of keys: of what a turn answers, and of what none does.
TURN, REPLY, KEY_DIGITS = "turn", "reply", 24

log = get_logger()


class DirectPlatform(ChatPlatform):
    """A platform where the agent and a person have direct messages.

    What one alone may see is said there, and why an answer can't be posted where it was asked for.
    """

    # Whether direct messages belong to a server.
    has_directs_of_servers: ClassVar[bool] = False

    @abstractmethod
    async def post_reply(self, reply: Reply, key: str) -> str | None:
        """Post a reply and return the id of its last message; every attempt and its live text have the same key."""

    @abstractmethod
    async def withdraw(self, reply: Reply, key: str) -> None:
        """Remove the live message of a reply whose question was deleted."""

    @abstractmethod
    async def open_direct(self, account: str, server: str | None = None) -> str:
        """Return the channel of the direct messages with a person, on a server where they belong to one."""

    @abstractmethod
    async def post_notice(self, place: Place, text: str, key: str) -> None:
        """Post a sentence in direct messages."""

    def find_reason(self, error: Undeliverable) -> str | None:
        """Return why a message can't be posted in a place, for the asker; None where the asker has not to know."""
        return None

    async def send(self, reply: Reply) -> str | None:
        """Post a reply once and return the id of its last message; a refusal is told to the asker."""
        key, server = key_of(self.app.secrets, reply, reply_id=reply.id), self._find_server(reply.place)
        if reply.delivery.is_withdrawn:
            await self.withdraw(reply, key)
            return None

        async def open_direct(account: str) -> str:
            return await self.open_direct(account, server)

        reply = await reply.in_direct(open_direct, server=server)
        try:
            return await self.post_reply(reply, key)
        except Undeliverable as error:
            await self._notify(reply, key, self.find_reason(error))
            raise

    def _find_server(self, place: Place) -> str | None:
        return place.server if self.has_directs_of_servers else None

    async def _notify(self, reply: Reply, key: str, reason: str | None) -> None:
        """Tell the asker, at most once a day, why there is no reply in a place; without a reason nothing is said."""
        asker, place, server = reply.delivery.asker, reply.place, self._find_server(reply.place)
        if reason is None or asker is None or place.is_direct:
            return
        parameters = {"platform": place.platform, "channel": place.channel, "asker": asker}
        async with self.app.database.statement() as session:
            if (await session.execute(statements.was_notified, parameters)).scalar_one():
                return
        text = NOTICE.format(where=self.mention_place(place), reason=reason)
        try:
            direct = Place(place.platform, server, await self.open_direct(asker, server), is_direct=True)
            await self.post_notice(direct, text, to_kind_key(self.app.secrets, "notice", key))
        except (Undeliverable, Unavailable) as error:
            # A person who accepts no direct messages can't be told.
            log.info("notice_not_sent", reply=reply.id, cause=str(error))


def key_of(secrets: Secrets, answer: "Reply | LiveTurn", *, reply_id: int = 0) -> str:
    """Return the key of an answer, by which a platform recognises it; `reply_id`: for one to no message.

    The question is in it: a restored database counts its turns from earlier on. Of a command that was answered in vain
    before, the message is the same, and the reply is not.
    """
    message, place = answer.reply_to or "", answer.place
    if answer.turn_id:
        return to_kind_key(secrets, TURN, place.key, message, answer.turn_id)
    message = message.rpartition(":")[2] if message.startswith(DIRECT) else message
    return to_kind_key(secrets, REPLY, place.key, message or reply_id)


def to_kind_key(secrets: Secrets, kind: str, *identity: object) -> str:
    """Return the key of what this identity names among those of its kind."""
    return f"{kind}-{to_key(secrets, *identity)[:KEY_DIGITS]}"


def to_reply(place: Place, reply: "CommandReply", *, asker: str, message_id: str | None) -> Reply:
    """Return the reply to a command as one that a platform sends; what one may see is for that person alone."""
    return Reply(
        id=0,
        turn_id=0,
        adapter=place.platform,
        place=place,
        reply_to=f"{DIRECT}{asker}:{message_id or ''}" if reply.is_private else message_id,
        content=reply.text,
        files=reply.files,
        choices=tuple(choice.line for choice in reply.choices),
        delivery=DeliveryInfo(asker=asker),
    )


async def keep(
    app: "App", place: Place, *, asker: str, reply: "CommandReply", message_id: str | None, error: ParleyError
) -> None:
    """Have a command's reply delivered later: the platform is away. What one may see goes to that person alone.

    Its buttons go with it, as the lines that they give; the text says how to confirm without them.
    """
    log.warning("command_not_answered", cause=str(error))
    # Only a reply for one person says whose its buttons are.
    reply = replace(reply, is_private=reply.is_private or place.is_direct)
    row = to_reply(place, reply, asker=asker, message_id=message_id).to_row(AGAIN_SECONDS)
    row |= {"status": "pending", "error": str(error)}
    if reply.is_secret:
        # An admin who reads the table could use it before the person does.
        row["content"] = AGAIN
    with suppress(DatabaseLost):
        async with app.database.transaction() as session:
            await session.execute(statements.store_reply, {"reply": json.dumps(row)})
