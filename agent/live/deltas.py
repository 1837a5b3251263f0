"""Sends the text of a running turn to its readers in all processes, in small batches: a preview of the stored message.

Whoever may connect to the database hears and sends notifications, whatever its role may read: the text is encrypted
with `SECRET_KEY`, for this place in this turn.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

from shared.credentials.vault import Undecryptable, Vault
from shared.text import clean

BATCH_SECONDS = 0.05
# Whoever comes late while a step is told again waits so long for the next time: anybody may ask, as often as they like.
REPEAT_SECONDS = 1.0
# A notification can hold 8,000 bytes; encrypted, one character takes up to sixteen of them, and the inbox ids stand
# there twice.
DELTA_CHARS = 300
PURPOSE = b"parley text deltas"


class DeltaVault:
    """Encrypts what notes tell of a turn's text, and decrypts it for the readers of that turn alone.

    `senders` are those of the turns that run here, by the ids of the messages that they answer: for who comes late.
    """

    def __init__(self, secret_keys: Sequence[str]) -> None:
        self.senders: WeakValueDictionary[int, DeltaSender] = WeakValueDictionary()
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
    """Sends the text deltas of one turn, the first one at once; `next_seq` returns the number of its next event."""

    def __init__(self, send: Callable[[dict[str, Any]], None], next_seq: Callable[[], int], *, is_reset: bool) -> None:
        """`send` gets {seq, delta}. With `is_reset` readers drop the text that an earlier attempt may have sent."""
        self._send, self._next_seq, self._is_reset = send, next_seq, is_reset
        self._waiting: list[str] = []
        # The text of this step, for those who come late.
        self._step: list[str] = []
        self._pause: asyncio.TimerHandle | None = None
        self._repeat_pause: asyncio.TimerHandle | None = None
        self._is_repeat_due = False

    def add(self, text: str) -> None:
        """Send this text within 50 ms."""
        self._waiting.append(text)
        self._step.append(text)
        self._send_soon()

    def reset(self) -> None:
        """Tell readers to drop the text of this step."""
        self._waiting.clear()
        self._step.clear()
        self._is_reset = True
        self._send_soon()

    def repeat(self) -> None:
        """Send the text of this step again from its beginning, because somebody has begun to read."""
        # Whoever comes when no text was sent, or after the end of the step, reads all of it in the tables. A delta then
        # would have a higher number than the events that end the turn, and who got it would wait for ever.
        if not self._step:
            return
        if self._repeat_pause is not None:
            self._is_repeat_due = True
            return
        self._repeat_pause = asyncio.get_running_loop().call_later(REPEAT_SECONDS, self._end_repeat_pause)
        self._waiting = list(self._step)
        self._is_reset = True
        self._send_soon()

    def _end_repeat_pause(self) -> None:
        is_due, self._repeat_pause, self._is_repeat_due = self._is_repeat_due, None, False
        if is_due:
            self.repeat()

    def end_step(self) -> None:
        """Send the rest of the text at once; what follows is another step's."""
        self.flush()
        self._step.clear()

    def flush(self) -> None:
        """Send the rest of the text at once."""
        text = clean("".join(self._waiting))
        self._waiting.clear()
        for start in range(0, len(text), DELTA_CHARS) or (0,) * self._is_reset:
            delta: dict[str, Any] = {"text": text[start : start + DELTA_CHARS]}
            if self._is_reset:
                delta["reset"] = True
                self._is_reset = False
            self._send({"seq": self._next_seq(), "delta": delta})

    def _send_soon(self) -> None:
        if self._pause is None:
            self.flush()
            self._pause = asyncio.get_running_loop().call_later(BATCH_SECONDS, self._send_again)

    def _send_again(self) -> None:
        self._pause = None
        if self._waiting or self._is_reset:
            self._send_soon()
