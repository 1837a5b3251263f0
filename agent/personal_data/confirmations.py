"""Commands that delete a person's own data run when that person has confirmed them, once and within ten minutes."""

import json
from collections.abc import Sequence
from typing import Literal, cast

from msgspec import Struct

from agent.turn.confirmations.rows import ask_about_command, use_yes_to_command
from shared.db.driver import Session
from shared.errors import Refusal

Action = Literal["/memory forget", "/memory forget all", "/erase me"]


class NothingToConfirm(Refusal):
    """There is nothing to confirm: it was confirmed before, is older than ten minutes, or a newer one replaced it."""

    code = "nothing_to_confirm"


class Confirmed(Struct, frozen=True):
    """A confirmed command: what it does, and to which memories."""

    action: Action
    memory_ids: Sequence[int]


async def ask_for_confirmation(session: Session, user_id: int, action: Action, memory_ids: Sequence[int] = ()) -> int:
    """Store a command until this person confirms it, and return its number; a newer one replaces it."""
    return await ask_about_command(session, user_id, action, arguments=json.dumps({"memory_ids": list(memory_ids)}))


async def take_confirmed(session: Session, user_id: int, number: int) -> Confirmed:
    """Return the command with this number, which cannot be confirmed again; raises `Refusal` if there is none."""
    agreed = await use_yes_to_command(session, user_id, number)
    if agreed is None:
        raise NothingToConfirm
    return Confirmed(cast("Action", agreed.tool), json.loads(agreed.arguments)["memory_ids"])
