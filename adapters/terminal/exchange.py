"""One message from the terminal and its answer: sent, shown while it comes, stopped by Ctrl+C."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from uuid import uuid4

from adapters.base import STORE_SECONDS
from adapters.terminal.files import store
from adapters.terminal.output import Output
from agent.app import App
from agent.live.channels import request_stop
from agent.live.listener import LAST_EVENT
from shared.db.database import retry_on_lost_db
from shared.messages import Decision, IncomingMessage, Place, ProgramRequest, Sender


class Exchange:
    """Sends the messages of one person in one place. `before_sending` makes sure that a worker runs."""

    def __init__(
        self, app: App, output: Output, before_sending: Callable[[], Awaitable[None]], *, sender: Sender, place: Place
    ) -> None:
        self._app = app
        self._output = output
        self._before_sending = before_sending
        self._sender = sender
        self._place = place
        self._watching: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[bool] | None = None
        # Whether a turn has ended with an error: its answer is only a sentence about that.
        self.has_failed = False

    async def send(
        self,
        text: str,
        files: Sequence[Path] = (),
        *,
        decision: Decision | None = None,
        request: ProgramRequest | None = None,
    ) -> int:
        """Send a message, show its answer until that has ended, and return the number of its row in the inbox."""
        self._output.wait()
        started = self._app.clock.monotonic()
        await retry_on_lost_db(self._before_sending, STORE_SECONDS)
        message = IncomingMessage(
            adapter="terminal",
            sender=self._sender,
            place=self._place,
            event_id=uuid4().hex,
            content=text,
            sent_at=self._app.clock.now(),
            attachments=tuple([await store(self._app.files.storage, path) for path in files]),
            wants_stream=self._output.wants_stream,
            decision=decision,
            request=request,
        )
        accepted = await retry_on_lost_db(lambda: self._app.inbox.accept(message), STORE_SECONDS)
        self._watching = asyncio.create_task(self._watch(accepted.inbox_id, started))
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
        return accepted.inbox_id

    def interrupt(self) -> None:
        """Stop the running answer; called again, stop showing it."""
        if self._watching is None:
            return
        if self._stopping is not None:
            self._watching.cancel()
            return
        self._output.note("stopping…")
        self._stopping = asyncio.create_task(request_stop(self._app.database, self._place, None))

    async def _watch(self, inbox_id: int, started: float) -> None:
        async for event in self._app.events.follow(inbox_id):
            if event.name != LAST_EVENT:
                self._output.show(event)
                continue
            self.has_failed = self.has_failed or bool(event.payload.get("error"))
            self._output.end(event.payload, self._app.clock.monotonic() - started)
