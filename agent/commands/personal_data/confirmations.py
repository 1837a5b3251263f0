"""Commands that delete a person's own data run when that person has confirmed them, once and within ten minutes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy.ext.asyncio import AsyncSession

from shared.db.statements import load_statements
from shared.errors import Refusal

statements = load_statements(__file__)

Action = Literal["forget", "forget_all", "erase"]


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
    return int((await session.execute(statements.store_confirmation, parameters)).scalar_one())


async def take_confirmed(session: AsyncSession, user_id: int, number: int) -> Confirmed:
    """Return the command with this number, which cannot be confirmed again; raises `Refusal` if there is none."""
    row = (await session.execute(statements.take_confirmation, {"id": number, "user_id": user_id})).one_or_none()
    if row is None or not row.is_fresh:
        raise NothingToConfirm
    return Confirmed(row.action, row.memory_ids)


async def drop_confirmation(session: AsyncSession, user_id: int) -> bool:
    """Drop this person's command that waits to be confirmed; return whether there was one."""
    return (await session.execute(statements.drop_confirmation, {"user_id": user_id})).one_or_none() is not None
