"""Sends the text of a running turn to its readers in all processes, in small batches.

Whoever may connect to the database hears and sends notifications, whatever its role may read: the text is encrypted
with `SECRET_KEY`, for this place in this turn.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Sequence
from typing import Any

from agent.live.channels import TURNS
from shared.credentials.vault import Undecryptable, Vault
from shared.db.database import Database, DatabaseLost
from shared.db.errors import REFUSED
from shared.db.statements import load_statements
from shared.text import clean

statements = load_statements(__file__)

BATCH_SECONDS = 0.05
# A notification can hold 8,000 bytes; encrypted, one character takes up to sixteen of them, and the inbox ids stand
# there twice.
DELTA_CHARS = 300
PURPOSE = b"parley text deltas"


class DeltaVault:
    """Encrypts what notes tell of a turn's text, and decrypts it for the readers of that turn alone."""

    def __init__(self, secret_keys: Sequence[str]) -> None:
        self._vault = Vault(secret_keys, PURPOSE)

    def seal(self, note: dict[str, Any], delta: dict[str, Any]) -> dict[str, Any]:
        """Return the note with the delta in it."""
        return note | {"delta": self._vault.encrypt(_owner_of(note), json.dumps(delta, ensure_ascii=False))}

    def find(self, note: dict[str, Any]) -> dict[str, Any] | None:
        """Return the delta in a note; None if no process of ours has sent it like that."""
        with contextlib.suppress(Undecryptable, KeyError, TypeError):
            delta: dict[str, Any] = json.loads(self._vault.decrypt(_owner_of(note), note["delta"]))
            return delta
        return None


def _owner_of(note: dict[str, Any]) -> str:
    return json.dumps([note["turn"], note["inbox"], note["seq"]])


class DeltaSender:
    """Sends the text deltas of one turn; `next_seq` returns the number of its next event."""

    def __init__(
        self,
        database: Database,
        vault: DeltaVault,
        turn: dict[str, Any],
        *,
        next_seq: Callable[[], int],
        is_reset: bool,
    ) -> None:
        """`turn` begins each note: the turn, and the messages that it answers.

        With `is_reset` readers drop the text that they have: an earlier attempt may have sent some.
        """
        self._database, self._vault, self._turn, self._next_seq = database, vault, turn, next_seq
        self._waiting: list[str] = []
        self._is_reset = is_reset
        self._sender: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()

    def add(self, text: str) -> None:
        """Send this text within 50 ms."""
        self._waiting.append(text)
        self._send_soon()

    def reset(self) -> None:
        """Tell readers to drop the text of this step."""
        self._waiting.clear()
        self._is_reset = True
        self._send_soon()

    async def flush(self) -> None:
        """Send the rest of the text at once."""
        if self._sender is not None and not self._sender.done():
            self._hurry.set()
            # Not awaited directly, because a cancellation would then also cancel the sender and break the next flush.
            await asyncio.wait({self._sender})

    def _send_soon(self) -> None:
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send_batches(), name="text deltas")

    async def _send_batches(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), BATCH_SECONDS)
        self._hurry.clear()
        while self._waiting or self._is_reset:
            whole = clean("".join(self._waiting))
            self._waiting.clear()
            notes = []
            for start in range(0, max(1, len(whole)), DELTA_CHARS):
                delta: dict[str, Any] = {"text": whole[start : start + DELTA_CHARS]}
                if self._is_reset:
                    delta["reset"] = True
                    self._is_reset = False
                notes.append(json.dumps(self._vault.seal(self._turn | {"seq": self._next_seq()}, delta)))
            # Lost deltas do no harm: they are a preview, and the stored message has the whole text.
            with contextlib.suppress(DatabaseLost, *REFUSED):
                async with self._database.statement() as session:
                    await session.execute(statements.notify, {"channel": TURNS, "notes": notes})
