"""One message from the terminal and its answer: sent, shown while it comes, stopped by Ctrl+C."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from uuid import uuid4

from adapters.base import STORE_SECONDS
from adapters.terminal.client import Client
from adapters.terminal.files import store_file
from adapters.terminal.output import Output
from agent.live.listener import LAST_EVENT
from agent.queue.abandonment import cancel
from shared.db.database import retry_on_lost_db
from shared.messages import Attachment, Decision, IncomingMessage, Place, ProgramRequest, Sender


class Exchange:
    """Sends the messages of one person in one place. `before_sending` makes sure that a worker runs."""

    def __init__(
        self,
        client: Client,
        output: Output,
        before_sending: Callable[[], Awaitable[None]],
        *,
        sender: Sender,
        place: Place,
    ) -> None:
        self._client = client
        self._output = output
        self._before_sending = before_sending
        self._sender = sender
        self._place = place
        # The task that shows the answer, once the message is stored.
        self._watching: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[str | None] | None = None
        self._inbox_id: int | None = None
        self._is_sending = self._is_interrupted = False
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
        self._is_sending, self._is_interrupted = True, False
        try:
            return await self._send(text, files, decision, request=request)
        finally:
            self._is_sending = False

    async def _send(
        self, text: str, files: Sequence[Path], decision: Decision | None, *, request: ProgramRequest | None
    ) -> int:
        attachments: tuple[Attachment, ...] = ()
        if files:
            most_mb = self._client.settings.max_body_mb
            async with self._client.open_store() as store:
                attachments = tuple([await store_file(store, path, most_mb) for path in files])
        self._output.wait()
        started = self._client.clock.monotonic()
        await retry_on_lost_db(self._before_sending, STORE_SECONDS)
        message = IncomingMessage(
            adapter="terminal",
            sender=self._sender,
            place=self._place,
            event_id=uuid4().hex,
            content=text,
            sent_at=self._client.clock.now(),
            attachments=attachments,
            wants_stream=self._output.wants_stream,
            decision=decision,
            request=request,
        )
        accepted = await retry_on_lost_db(lambda: self._client.inbox.accept(message), STORE_SECONDS)
        self._inbox_id = accepted.inbox_id
        self._watching = asyncio.create_task(self._watch(accepted.inbox_id, started))
        if self._is_interrupted:
            self._stop(accepted.inbox_id)
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
            self._watching = self._stopping = self._inbox_id = None
        return accepted.inbox_id

    def interrupt(self) -> None:
        """Stop the running answer; called again, stop showing it."""
        if not self._is_sending:
            return
        if self._is_interrupted:
            if self._watching is not None:
                self._watching.cancel()
            return
        self._is_interrupted = True
        self._output.stop()
        if self._inbox_id is not None:
            self._stop(self._inbox_id)

    def _stop(self, inbox_id: int) -> None:
        # A message whose turn has not begun is withdrawn.
        self._stopping = asyncio.create_task(cancel(self._client.database, inbox_id))

    async def _watch(self, inbox_id: int, started: float) -> None:
        async for event in self._client.events.follow(inbox_id):
            if event.name != LAST_EVENT:
                self._output.show(event)
                continue
            self.has_failed = self.has_failed or bool(event.payload.get("error"))
            self._output.end(event.payload, self._client.clock.monotonic() - started)
