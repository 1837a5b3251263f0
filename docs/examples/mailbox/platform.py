"""The mailbox as a `ChatPlatform`."""

import asyncio
import json
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import text

from adapters.base import ChatPlatform, Finding
from adapters.chat.buttons import AnswerButtons, Button, buttons_below, find_button
from adapters.chat.clicks import Click, accept_click
from adapters.chat.intake import Edits, answer_typed
from adapters.chat.live import show_live
from adapters.chat.parts import split_text
from adapters.mailbox.settings import MailboxSettings
from agent.live.announcer import LiveTurn
from agent.queue.outbox import Reply
from shared.messages import IncomingMessage, Place, Sender
from shared.settings import Settings

NAME = "mailbox"
NO_BUTTONS = AnswerButtons()
COUNT_MESSAGE = text("""
INSERT INTO mailbox_writers AS writer (author, messages) VALUES (:author, 1)
ON CONFLICT (author) DO UPDATE SET messages = writer.messages + 1
""")


def to_incoming(event: dict[str, Any]) -> IncomingMessage:
    """Return an event in our shape: pure conversion, so that it can be tested with real payloads."""
    return IncomingMessage(
        adapter=NAME,
        sender=Sender(NAME, event["author"]),
        place=Place(NAME, None, event["room"], is_direct=True),
        event_id=event["id"],
        content=event["text"],
        sent_at=datetime.now(UTC),
        platform_message_id=event["id"],
    )


class MailboxPlatform(ChatPlatform):
    """One folder of messages."""

    name = NAME
    settings: MailboxSettings

    async def receive(self) -> None:
        """Take the files in `in/`, oldest first; one is removed when what it holds is stored."""
        while True:
            for path in sorted(self.path("in").glob("*.json")):
                await self.take(json.loads(path.read_text("utf-8")))
                path.unlink()
            await asyncio.sleep(0.05)

    async def take(self, event: dict[str, Any]) -> None:
        """Take one event: a message, an edit, a deletion or a click."""
        match event["kind"]:
            case "edit":
                edits, message = Edits(self.app, NAME), to_incoming(event)
                edited = await edits.change(message.place, message.event_id, message.content)
                if edited is not None and edited.turn_id is not None:
                    await edits.offer_again(edited.turn_id, event["author"], self.show_buttons)
            case "delete":
                await Edits(self.app, NAME).delete([event["id"]])
            case "click":
                button = find_button(event["button"])
                if button is not None:
                    await accept_click(self.app, MailboxClick(self, button, event))
            case _:
                await self.take_message(to_incoming(event))

    async def take_message(self, message: IncomingMessage) -> None:
        """Take a message: what is no command is stored, and answered later."""
        if not await answer_typed(self.app, message, self.send):
            await self.accept(message)
            async with self.app.database.statement() as session:
                await session.execute(COUNT_MESSAGE, {"author": message.sender.platform_user_id})

    async def send(self, reply: Reply) -> str | None:
        """Write the answer. A file's name tells its reply: a second attempt writes the same files."""
        name = f"reply-{reply.turn_id}" if reply.turn_id else f"command-{reply.reply_to}"
        *before, last = split_text("\n".join([reply.content, *(file.url for file in reply.files)]), self.settings.limit)
        for number, part in enumerate(before):
            self.post(f"{name}-part-{number}", part)
        self.post(name, last, buttons_below(reply, self.app.clock.now()))
        return name

    async def show(self, turn: LiveTurn) -> None:
        """Show the answer while it grows, in the file that will hold its end."""
        await show_live(turn, MailboxLiveMessage(self, f"reply-{turn.turn_id}"))

    async def show_buttons(self, answer: Any, buttons: AnswerButtons) -> None:
        """Show other buttons below an answer; `answer` is its row of `outbox`."""
        posted = json.loads(self.path("out", f"{answer.platform_message_id}.json").read_text("utf-8"))
        self.post(answer.platform_message_id, posted["text"], buttons)

    async def examine(self, settings: Settings) -> AsyncGenerator[Finding]:
        """Say whether the folder can be used."""
        yield Finding("ok", f"messages come from {self.path('in')}")

    def post(self, name: str, text: str, buttons: AnswerButtons = NO_BUTTONS) -> None:
        """Write one message."""
        shown = {each.label: each.button.to_id() for each in (*buttons.choices, *buttons.actions)}
        # Whole or not at all: a reader must not see half a file.
        draft = self.path("out", f"{name}.draft")
        draft.write_text(json.dumps({"text": text, "buttons": shown}), "utf-8")
        draft.rename(draft.with_suffix(".json"))

    def path(self, *names: str) -> Path:
        """Return a path in the mailbox, whose folders are there."""
        path = Path(self.settings.folder or ".").joinpath(*names)
        (path.parent if len(names) > 1 else path).mkdir(parents=True, exist_ok=True)
        return path


class MailboxLiveMessage:
    """The message in which one answer grows."""

    def __init__(self, mailbox: MailboxPlatform, name: str) -> None:
        self._mailbox, self._name = mailbox, name

    async def type(self) -> None:
        """Show that somebody is writing."""
        self._mailbox.post(self._name, "…")

    async def post(self, text: str) -> str:
        """Show the beginning and return the message's id."""
        self._mailbox.post(self._name, text)
        return self._name

    async def edit(self, message_id: str, text: str) -> None:
        """Show more of it."""
        self._mailbox.post(message_id, text)


class MailboxClick(Click):
    """One press of a button."""

    def __init__(self, mailbox: MailboxPlatform, button: Button, event: dict[str, Any]) -> None:
        super().__init__(button, to_incoming(event | {"text": ""}))
        self._mailbox, self._event = mailbox, event

    async def whisper(self, text: str) -> None:
        """Answer the person alone."""
        self._mailbox.post(f"whisper-{self._event['id']}", text)

    async def store(self, message: IncomingMessage, row: Any) -> None:
        """Store the message; here the buttons stay."""
        await self._mailbox.accept(message)
