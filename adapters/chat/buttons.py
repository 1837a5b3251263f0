"""Buttons below answers, on every platform. A button's id contains everything, so any process can handle a click.

An id is bound to the asker and expires; what it names is looked up again for each click.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import text

from agent.app import App
from agent.memories.turns import DELETED
from agent.turn.run import request_stop
from shared.messages import Attachment, Place, find_command_label
from shared.models.base import MAX_ID

if TYPE_CHECKING:
    from agent.queue.outbox import DeliveryInfo, Reply

MARK = "parley"
STOP, AGAIN, CHOICE, GOOD, BAD, RUN = ACTIONS = "stop", "again", "choice", "good", "bad", "run"
VOTES = ((GOOD, "👍"), (BAD, "👎"))
LASTS = timedelta(hours=24)
YES, NO = "yes", "no"
STOP_LABEL, AGAIN_EMOJI, EDITED_LABEL = "Stop", "🔄", "Answer the edited message"

NOT_YOURS = "These buttons are for <@{asker}>."
OVER = "These buttons have expired."
GONE = "That answer is gone."
WITHDRAWN = "What was asked has been deleted."
THANKS = "Thank you; that is noted."
STOPPING, ENDED = "Stopping.", "It has ended already."

TURN = text("""
SELECT outbox.choices, outbox.reply_to, outbox.platform, outbox.platform_server_id, outbox.platform_channel_id,
       outbox.platform_thread_id, outbox.is_direct,
       (SELECT confirmations.id FROM confirmations WHERE confirmations.turn_id = turns.id) AS confirmation_id,
       (SELECT json_agg(json_build_object('content', content, 'attachments', attachments, 'user', platform_user_id)
                        ORDER BY sent_at, id) FROM inbox WHERE inbox.turn_id = turns.id) AS asked
FROM turns JOIN outbox ON outbox.turn_id = turns.id WHERE turns.id = :turn_id
""")
RUNNING = text("""
SELECT turns.user_id, inbox.platform, inbox.platform_server_id, inbox.platform_channel_id, inbox.platform_thread_id,
       inbox.is_direct
FROM turns JOIN inbox ON inbox.turn_id = turns.id
WHERE turns.id = :turn_id AND turns.status = 'running' AND inbox.platform_user_id = :asker LIMIT 1
""")
VOTE = text("""
INSERT INTO feedback (turn_id, user_id, score) SELECT turns.id, turns.user_id, :score FROM turns
WHERE turns.id = :turn_id AND turns.user_id IS NOT NULL
  AND EXISTS (SELECT FROM inbox WHERE inbox.turn_id = turns.id AND inbox.platform_user_id = :asker)
ON CONFLICT (turn_id, user_id) DO UPDATE SET score = excluded.score RETURNING id
""")


@dataclass(frozen=True, slots=True)
class Button:
    """The action of a button, on a turn, for the person who asked; of `RUN`, on a command to be confirmed."""

    action: str
    turn_id: int
    asker: str
    expires: int
    index: int = 0

    def to_id(self) -> str:
        """Return the button's id."""
        return f"{MARK}:{self.action}:{self.turn_id:x}:{self.asker}:{self.expires:x}:{self.index}"

    def is_over(self, now: datetime) -> bool:
        """Return whether the button has expired."""
        return now.timestamp() > self.expires


@dataclass(frozen=True, slots=True)
class ShownButton:
    """A button with its label. `kind`: its style; `is_emoji`: the label is one emoji."""

    button: Button
    label: str
    kind: Literal["choice", "main", "plain", "yes", "no"] = "plain"
    is_emoji: bool = False


@dataclass(frozen=True, slots=True)
class AnswerButtons:
    """The buttons below an answer: choices, and actions."""

    choices: Sequence[ShownButton] = ()
    actions: Sequence[ShownButton] = ()


@dataclass(frozen=True, slots=True)
class TurnButtons:
    """Creates the buttons of one turn, for the person who asked."""

    turn_id: int
    asker: str
    now: datetime

    def stop(self) -> ShownButton:
        """Return the button below live text."""
        return ShownButton(self._make(STOP), STOP_LABEL, "no")

    def answer(
        self, choices: Sequence[str] = (), *, status: str = "answered", was_edited: bool = False
    ) -> AnswerButtons:
        """Return the buttons below an answer; `was_edited`: the question was edited since."""
        offered = [
            ShownButton(self._make(CHOICE, index), to_label(choice), to_kind(choice))
            for index, choice in enumerate(choices)
        ]
        again = self._make(AGAIN)
        if was_edited:
            return AnswerButtons(offered, [ShownButton(again, EDITED_LABEL, "main")])
        if offered or status == "refused":
            # A question for confirmation has choices and no votes, and a refusal would be repeated by "again".
            return AnswerButtons(offered)
        votes = [ShownButton(self._make(action), emoji, is_emoji=True) for action, emoji in VOTES]
        again_shown = ShownButton(again, AGAIN_EMOJI, is_emoji=True)
        return AnswerButtons((), [again_shown, *(votes if status == "answered" else ())])

    def _make(self, action: str, index: int = 0) -> Button:
        return Button(action, self.turn_id, self.asker, expires=int((self.now + LASTS).timestamp()), index=index)


def buttons_below(reply: "Reply", delivery: "DeliveryInfo", now: datetime) -> AnswerButtons:
    """Return the buttons below a reply; none if it has no turn."""
    if not reply.turn_id or delivery.asker is None:
        return AnswerButtons()
    made = TurnButtons(reply.turn_id, delivery.asker, now)
    return made.answer(reply.choices, status=delivery.status, was_edited=delivery.was_edited)


def to_kind(choice: str) -> Literal["choice", "yes", "no"]:
    """Return the style of a choice: yes and no answer a question for confirmation."""
    return "yes" if choice == YES else "no" if choice == NO else "choice"


def to_label(choice: str) -> str:
    """Return the label of a choice."""
    if choice in (YES, NO):
        return choice.capitalize()
    return find_command_label(choice) or " ".join(choice.split()) or "…"


def cut_label(label: str, most: int) -> str:
    """Return a label of at most so many characters."""
    return label if len(label) <= most else f"{label[: most - 1]}…"


@dataclass(frozen=True, slots=True)
class Question:
    """The question that is asked again."""

    content: str
    files: tuple[Attachment, ...]


def find_button(custom_id: str) -> Button | None:
    """Return the button with this id; None if the id is not one of ours."""
    head, tail = custom_id.split(":", 3), custom_id.rsplit(":", 2)
    if len(head) != 4 or len(tail) != 3 or head[0] != MARK or head[1] not in ACTIONS:
        return None
    # The account is between the other fields, because it may contain a colon.
    asker = head[3].removesuffix(f":{tail[1]}:{tail[2]}")
    try:
        button = Button(head[1], int(head[2], 16), asker, expires=int(tail[1], 16), index=int(tail[2]))
    except ValueError:
        return None
    return button if 0 < button.turn_id <= MAX_ID and 0 <= button.index < MAX_ID else None


async def find_turn(app: App, button: Button) -> Any:
    """Return the button's turn (a row of `TURN`); None unless that person wrote everything that it answers."""
    async with app.database.statement() as session:
        row = (await session.execute(TURN, {"turn_id": button.turn_id})).one_or_none()
    # Checked in the database, because an id can be made up.
    if row is None or not row.asked or any(each["user"] != button.asker for each in row.asked):
        return None
    return row


def find_question(row: Any) -> Question | None:
    """Return the question of a turn (a row of `TURN`) without what was deleted since; None if nothing is left."""
    left = [each for each in row.asked if each["content"] != DELETED]
    files = tuple(Attachment(**file) for each in left for file in each["attachments"])
    return Question("\n".join(each["content"] for each in left), files) if left else None


async def stop(app: App, button: Button) -> bool:
    """Cancel the button's turn; return whether it was running."""
    async with app.database.statement() as session:
        given = {"turn_id": button.turn_id, "asker": button.asker}
        row = (await session.execute(RUNNING, given)).one_or_none()
    return row is not None and await request_stop(app.database, Place.from_row(row), row.user_id)


async def vote(app: App, button: Button) -> bool:
    """Store a vote; return False if its turn no longer exists."""
    given = {"turn_id": button.turn_id, "asker": button.asker, "score": 1 if button.action == GOOD else -1}
    async with app.database.statement() as session:
        return (await session.execute(VOTE, given)).one_or_none() is not None
