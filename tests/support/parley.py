"""A running Parley for tests: messages go in through the inbox, replies come out."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import CursorResult, text

from adapters.cli.compose import open_app
from adapters.cli.worker import build_worker
from agent.app import App
from agent.journal.steps import Event
from agent.queue.inbox import Accepted
from agent.queue.outbox import Reply as Posted
from agent.queue.outbox import Senders
from agent.tools.modules import ModuleTools
from shared.db.database import Address
from shared.messages import AgentResponse, Attachment, IncomingMessage, Place, PlatformContext
from shared.messages import Sender as Writer
from shared.settings import Settings
from tests.standins.openai_api import OpenAIStub, Reply
from tests.standins.openai_api.script import Body
from tests.support.eventually import PATIENCE


@dataclass
class FakePlatform:
    """A platform whose replies are posts in a list; it accepts each nonce once, as Discord does."""

    posts: list[Posted] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, reply: Posted) -> str | None:
        """Post the reply unless its nonce is known."""
        if all(post.nonce != reply.nonce for post in self.posts):
            self.posts.append(reply)
        self.arrived.set()
        return f"post-{reply.id}"

    def outage_scope(self, _place: Place) -> str:
        """Return nothing: it is away as a whole."""
        return ""

    async def wait_for(self, count: int) -> list[str]:
        """Return the texts as soon as there are this many."""
        async with asyncio.timeout(PATIENCE):
            while len(self.posts) < count:
                self.arrived.clear()
                await self.arrived.wait()
        return [post.content for post in self.posts]


def message(content: str, **fields: Any) -> IncomingMessage:
    """Return an incoming message, by default Ann's in a direct message over HTTP."""
    platform = fields.get("platform", "test")
    user = fields.get("user", "ann")
    server = fields.get("server")
    place = Place(
        platform=platform,
        server=server,
        channel=fields.get("channel", f"dm-{user}" if server is None else "general"),
        thread=fields.get("thread"),
        is_direct=fields.get("is_direct", server is None),
    )
    return IncomingMessage(
        adapter=fields.get("adapter", "http"),
        sender=Writer(platform, user, fields.get("username", user.title())),
        place=place,
        event_id=fields.get("event_id") or uuid4().hex,
        content=content,
        sent_at=fields.get("sent_at") or datetime.now(UTC),
        attachments=tuple(fields.get("attachments", ())),
        wants_stream=fields.get("wants_stream", False),
        decision=fields.get("decision"),
        platform_context=fields.get("platform_context", PlatformContext()),
        replied_to=fields.get("replied_to"),
        credentials=fields.get("credentials"),
    )


@dataclass
class Parley:
    """An app with a running worker, its model and its platform."""

    app: App
    model: OpenAIStub
    platform: FakePlatform
    worker: "asyncio.Task[None] | None" = None

    async def accept(self, content: str, **fields: Any) -> Accepted:
        """Store a message and return at once."""
        return await self.app.inbox.accept(message(content, **fields))

    async def ask(self, content: str, **fields: Any) -> AgentResponse:
        """Store a message and wait for its answer."""
        accepted = await self.accept(content, **fields)
        async with asyncio.timeout(PATIENCE):
            return await self.app.events.response(accepted.inbox_id)

    async def follow(self, content: str) -> list[Event]:
        """Store a message and return all events that a follower gets.

        The model waits for the follower, because deltas are not stored for late followers.
        """
        script, is_read = self.model.script, asyncio.Event()

        async def waits(body: Body, number: int) -> Reply:
            await is_read.wait()
            reply = script(body, number)
            return await reply if isinstance(reply, Awaitable) else reply

        self.model.play(waits)
        accepted = await self.accept(content, wants_stream=True)
        events = []
        async for event in self.app.events.follow(accepted.inbox_id):
            is_read.set()
            events.append(event)
        return events

    async def ask_until_stopped(self, content: str) -> AgentResponse:
        """Store a message, stop its turn at the first delta of the answer, and return the response."""
        accepted = await self.accept(content, wants_stream=True)
        stopped = False
        async for event in self.app.events.follow(accepted.inbox_id):
            if event.name == "text_delta" and not stopped:
                stopped = True
                await self.sql("UPDATE turns SET stop_requested = true")
                await self.sql("SELECT pg_notify('parley_stops', id::text) FROM turns")
        async with asyncio.timeout(PATIENCE):
            return await self.app.events.response(accepted.inbox_id)

    async def sql(self, statement: str, **parameters: Any) -> list[Any]:
        """Run a statement as an admin would, in a transaction of its own."""
        async with self.app.database.transaction() as session:
            result = await session.execute(text(statement), parameters)
            return list(result.all()) if isinstance(result, CursorResult) and result.returns_rows else []

    async def value(self, statement: str, **parameters: Any) -> Any:
        """Return the first value that a statement returns."""
        return (await self.sql(statement, **parameters))[0][0]

    def attach(self, filename: str, key: str, mime_type: str = "text/plain", size: int = 0) -> Attachment:
        """Return an attachment whose content is already in the storage."""
        return Attachment(filename, mime_type, size, storage_key=key)


@asynccontextmanager
async def open_parley(
    settings: Settings,
    address: Address,
    model: OpenAIStub,
    *,
    senders: Senders | None = None,
    modules: ModuleTools | None = None,
    works: bool = True,
) -> AsyncIterator[Parley]:
    """Open a `Parley`; with `works` it has a running worker."""
    platform = FakePlatform()
    async with open_app(settings, address, senders or {"fake": platform}, modules) as app:
        parley = Parley(app, model, platform)
        if works:
            parley.worker = asyncio.create_task(build_worker(app).run(), name="worker of the parley")
        try:
            yield parley
        finally:
            if parley.worker is not None:
                parley.worker.cancel()
                await asyncio.gather(parley.worker, return_exceptions=True)


def texts(responses: Sequence[AgentResponse]) -> list[str]:
    return [response.content for response in responses]
