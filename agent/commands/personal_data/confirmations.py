"""Commands that delete a person's own data run when that person has confirmed them, once and within ten minutes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import BigInteger, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncSession

from shared.errors import Refusal

Action = Literal["forget", "forget_all", "erase"]

# A newer command of a person replaces the older one.
ADD = text("""
INSERT INTO command_confirmations (user_id, action, memory_ids) VALUES (:user_id, :action, :memory_ids)
ON CONFLICT (user_id) DO UPDATE SET id = excluded.id, action = excluded.action, memory_ids = excluded.memory_ids,
    expires_at = excluded.expires_at, created_at = excluded.created_at
RETURNING id
""").bindparams(bindparam("memory_ids", type_=ARRAY(BigInteger())))
TAKE = text("""
DELETE FROM command_confirmations WHERE id = :id AND user_id = :user_id
RETURNING action, memory_ids, expires_at > now() AS is_fresh
""")
DROP = text("DELETE FROM command_confirmations WHERE user_id = :user_id RETURNING id")


class NothingToConfirm(Refusal):
    """There is nothing to confirm: it was confirmed before, is older than ten minutes, or a newer one replaced it."""

    code = "nothing_to_confirm"


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A confirmed command: what it does, and to which memories."""

    action: Action
    memory_ids: Sequence[int]


async def ask_for_confirmation(
    session: AsyncSession, user_id: int, action: Action, memory_ids: Sequence[int] = ()
) -> int:
    """Store a command until this person confirms it, and return its number."""
    parameters = {"user_id": user_id, "action": action, "memory_ids": list(memory_ids)}
    return int((await session.execute(ADD, parameters)).scalar_one())


async def take_confirmed(session: AsyncSession, user_id: int, number: int) -> Confirmed:
    """Return the command with this number, which cannot be confirmed again; raises `Refusal` if there is none."""
    row = (await session.execute(TAKE, {"id": number, "user_id": user_id})).one_or_none()
    if row is None or not row.is_fresh:
        raise NothingToConfirm
    return Confirmed(row.action, row.memory_ids)


async def drop_confirmation(session: AsyncSession, user_id: int) -> bool:
    """Drop this person's command that waits to be confirmed; return whether there was one."""
    return (await session.execute(DROP, {"user_id": user_id})).one_or_none() is not None
