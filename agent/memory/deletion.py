"""Deletes the memories of messages and turns that are gone."""

from collections.abc import Iterable

from shared.db.driver import Session
from shared.db.statements import load_statements

statements = load_statements(__file__)

# What redaction leaves of a message.
DELETED = "[deleted]"


async def forget_turns(
    session: Session, *, platform: str, message_ids: Iterable[str] = (), turn_ids: Iterable[int | None] = ()
) -> None:
    """Delete the memories of these messages and of these turns, facts included; what is left is stored anew."""
    turns = [turn_id_ for turn_id_ in turn_ids if turn_id_ is not None]
    await session.execute(
        statements.forget_messages, {"turn_ids": turns, "platform": platform, "message_ids": list(message_ids)}
    )
    await session.execute(statements.queue_turns, {"turn_ids": turns})
