"""The conversation: lines become messages or commands, events become an answer."""

import asyncio
import os
import pwd
import signal
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from uuid import uuid4

from adapters.base import STORE_SECONDS
from adapters.terminal.files import find_dragged, find_file, store, to_size
from adapters.terminal.output import Output, describe_file
from adapters.terminal.reading import Reader
from agent import commands
from agent.app import App
from agent.live.channels import request_stop
from agent.live.listener import LAST_EVENT
from shared.db.database import retry_on_lost_db
from shared.errors import ParleyError
from shared.messages import IncomingMessage, Place, Sender

ATTACH = "/attach"
ATTACH_HELP = f"{ATTACH} PATH - Send a file with your next message; a file dropped on the window does the same."


def terminal_sender() -> Sender:
    """Return the identity of the person who runs the program: the machine's login name."""
    try:
        login = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        login = f"uid-{os.getuid()}"
    return Sender("terminal", login, login)


def terminal_place(sender: Sender) -> Place:
    """Return the place of a terminal: a direct conversation with this person."""
    return Place("terminal", None, sender.platform_user_id, is_direct=True)


class Chat:
    """One person's conversation. `before_sending` makes sure that a worker runs."""

    def __init__(self, app: App, reader: Reader, output: Output, before_sending: Callable[[], Awaitable[None]]) -> None:
        self._app = app
        self._reader = reader
        self._output = output
        self._before_sending = before_sending
        self._sender = terminal_sender()
        self._place = terminal_place(self._sender)
        self._files: list[Path] = []
        self._watching: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[bool] | None = None
        # Whether a turn has ended with an error: its answer is only a sentence about that.
        self.has_failed = False

    async def run(self) -> None:
        """Run the conversation until it ends; at a keyboard, Ctrl+C stops the answer and not the program."""
        loop = asyncio.get_running_loop()
        if self._output.wants_stream:
            loop.add_signal_handler(signal.SIGINT, self._interrupt)
        try:
            while (text := await self._reader.read()) is not None:
                try:
                    goes_on = await self._on_input(text)
                except ParleyError as error:
                    self._output.note(str(error))
                    continue
                if not goes_on:
                    return
        finally:
            if self._output.wants_stream:
                loop.remove_signal_handler(signal.SIGINT)

    async def _on_input(self, text: str) -> bool:
        """Handle one input; return False if it ends the conversation."""
        line = text.strip()
        if line == ATTACH or line.startswith(f"{ATTACH} "):
            self._attach(find_file(line.removeprefix(ATTACH), self._app.settings.max_body_mb))
            return True
        dragged = find_dragged(line)
        if dragged is not None:
            self._attach(find_file(str(dragged), self._app.settings.max_body_mb))
            return True
        if not line and not self._files:
            return True
        if (name := commands.find_credential_form(line)) is not None:
            value = await self._reader.read_secret(f"{name}: ")
            if value is None:
                self._output.note("Nothing was kept.")
            else:
                self._output.write(await commands.keep_credential(self._app, self._sender, name, value=value))
            return True
        reply = await commands.answer(self._app, self._sender, self._place, text=text)
        if reply is None:
            await self._ask(text)
            return True
        hints = [ATTACH_HELP] if line.lower() == "/help" else []
        self._output.write("\n".join([reply.text, *hints, *(describe_file(asdict(file)) for file in reply.files)]))
        return not reply.quit

    def _attach(self, path: Path) -> None:
        self._files.append(path)
        self._output.note(f"{path.name} ({to_size(path.stat().st_size)}) goes with your next message.")

    async def _ask(self, text: str) -> None:
        self._output.wait()
        await retry_on_lost_db(self._before_sending, STORE_SECONDS)
        message = IncomingMessage(
            adapter="terminal",
            sender=self._sender,
            place=self._place,
            event_id=uuid4().hex,
            content=text,
            sent_at=self._app.clock.now(),
            attachments=tuple([await store(self._app.files.storage, path) for path in self._files]),
            wants_stream=self._output.wants_stream,
        )
        accepted = await retry_on_lost_db(lambda: self._app.inbox.accept(message), STORE_SECONDS)
        self._files.clear()
        self._watching = asyncio.create_task(self._watch(accepted.inbox_id))
        try:
            await asyncio.wait([self._watching])
            if self._watching.cancelled():
                self._output.note("The answer goes on without you; it is kept in the conversation.")
            else:
                self._watching.result()
            if self._stopping is not None:
                await self._stopping
        finally:
            self._watching.cancel()
            self._watching = self._stopping = None

    def _interrupt(self) -> None:
        """Stop the running answer; called again, stop showing it."""
        if self._watching is None:
            return
        if self._stopping is not None:
            self._watching.cancel()
            return
        self._output.note("stopping…")
        self._stopping = asyncio.create_task(request_stop(self._app.database, self._place, None))

    async def _watch(self, inbox_id: int) -> None:
        async for event in self._app.events.follow(inbox_id):
            self._output.show(event)
            if event.payload.get("error") and event.name == LAST_EVENT:
                self.has_failed = True
