"""The client for remote agents: fetches their cards and sends them tasks over A2A.

Every call ends with an answer or an error within its timeout and with bounded memory, also if the peer hangs, drops the
connection, sends too much or sends invalid data.
"""

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import uuid4

from msgspec import Struct

from agent.agents.delegation.peers import Asker, PeerAnswer, PeerFile
from agent.people.hops import installation_id, outbound_hops, person_id
from agent.tools.calls import depth
from shared.credentials.row_secrets import filled_in
from shared.db.database import Database, DatabaseLost
from shared.db.statements import load_statements
from shared.errors import ParleyError, ToolError, Unavailable
from shared.http.client import GuardedClient
from shared.log import get_logger
from shared.redaction import redact_text
from shared.settings import A2A_PREFIX, Secrets
from shared.text import MAX_DEPTH, clean, clean_json, cut

statements = load_statements(__file__)

if TYPE_CHECKING:
    from a2a.types.a2a_pb2 import AgentCard

    from agent.agents.a2a.exchange import Question, TaskProgress
    from agent.agents.a2a.http import Address
    from shared.models import Agent

WELL_KNOWN = ("/.well-known/agent-card.json", "/.well-known/agent.json")
CARD_LIFE_SECONDS = 600.0
CARD_SECONDS = 15.0
MAX_CARD_BYTES = 256 * 1024
STOP_SECONDS = 5.0
FILE_SECONDS = 30.0
MAX_FILES = 10
MAX_FILE_BYTES = 20 * 1024 * 1024
MAX_NOTE = 500
# The person for whom a task is: in the metadata of the message, and for the calls that follow it in the headers.
PERSON = "parley/person"
PERSON_HEADERS = {"parley-platform": "platform", "parley-user": "platform_user_id"}


log = get_logger()


class _Kept(Struct, frozen=True):
    card: "AgentCard"
    address: "Address"
    until: float


class _Running(Struct, frozen=True):
    # What `_stop` needs to cancel a task on the remote agent.
    name: str
    address: "Address"
    card: "AgentCard"
    progress: "TaskProgress"


class RemoteAgents:
    """Calls the agents that have a URL; implements `Peers`."""

    def __init__(self, database: Database, http: GuardedClient, secrets: Secrets) -> None:
        self._database = database
        self._http = http
        self._secrets = secrets
        self._cards: dict[int, _Kept] = {}
        self._stopping: set[asyncio.Task[None]] = set()

    async def aclose(self) -> None:
        """Wait up to `STOP_SECONDS` for pending cancel requests, then cancel those that are left."""
        if self._stopping:
            await asyncio.wait(self._stopping, timeout=STOP_SECONDS)
        for task in self._stopping:
            task.cancel()

    def forget_cards(self, table: str | None) -> None:
        """Fetch the agents' cards again if their table has changed, or may have: None."""
        if table in (None, "agents"):
            self._cards.clear()

    async def ask(
        self, agent: "Agent", task: str, *, seconds: float, hops: tuple[str, ...], context_id: str, asker: Asker
    ) -> PeerAnswer:
        """Send the task to the agent of this row; see `Peers.ask`. Each task gets a new context on the remote side."""
        # Importing the SDK is slow: in a thread it does not block the event loop.
        await asyncio.to_thread(__import__, "agent.agents.a2a.exchange")
        from agent.agents.a2a.exchange import PeerRefused, Question

        # The peer gets a stable pseudonym instead of our user id; two of our users never share one there.
        person = {"platform": "a2a", "platform_user_id": person_id(self._secrets, asker.user_id)}
        metadata = {
            "parley/trail": outbound_hops(hops, installation_id(self._secrets)),
            PERSON: {**person, "is_direct": asker.is_direct},
        }
        try:
            # Both installations store this id, and it must stay unique even if our tables are lost.
            question = Question(task, f"{context_id}-{uuid4().hex}", metadata)
            answer = await self._ask_in_time(agent, question, seconds)
        except PeerRefused:
            raise
        except (ToolError, Unavailable) as error:
            self._cards.pop(agent.id, None)
            log.warning("agent_unreachable", agent=agent.name, cause=type(error.__cause__ or error).__name__)
            await self._note(statements.store_error, agent, error=cut(clean(redact_text(str(error))), MAX_NOTE))
            raise
        if agent.last_error is not None:
            await self._note(statements.store_error, agent, error=None)
        return answer

    async def _ask_in_time(self, agent: "Agent", question: "Question", seconds: float) -> PeerAnswer:
        from agent.agents.a2a.exchange import TaskProgress
        from agent.agents.a2a.http import Address

        address = Address(agent.url or "", filled_in(agent.headers, A2A_PREFIX))
        headers = {name: value for name, value in address.headers.items() if name.lower() not in PERSON_HEADERS}
        headers |= {header: str(question.metadata[PERSON][field]) for header, field in PERSON_HEADERS.items()}
        calls = Address(address.url, headers)
        progress = TaskProgress()
        try:
            async with asyncio.timeout(seconds):
                card = await self._card(agent, address)
                await self._carry_out(_Running(agent.name, calls, card=card, progress=progress), question, seconds)
                return await self._to_answer(agent.name, address, progress)
        except TimeoutError:
            raise Unavailable(f"{agent.name} did not come to an end within {seconds:.0f} seconds.") from None

    async def _carry_out(self, running: _Running, question: "Question", seconds: float) -> None:
        from agent.agents.a2a.exchange import carry_out, connected, translated_errors

        progress = running.progress
        try:
            with translated_errors(running.name):
                async with connected(self._http, running.address, card=running.card, seconds=seconds) as client:
                    await carry_out(client, running.card, question=question, progress=progress)
        finally:
            if progress.task_id and not progress.is_over:
                self._stopping.add(task := asyncio.create_task(self._stop(running), name=f"stop {running.name}"))
                task.add_done_callback(self._stopping.discard)

    async def _stop(self, running: _Running) -> None:
        from agent.agents.a2a.exchange import cancel_task, connected, translated_errors

        address, card = running.address, running.card
        with suppress(ToolError, Unavailable, TimeoutError), translated_errors(running.name):
            async with (
                asyncio.timeout(STOP_SECONDS),
                connected(self._http, address, card=card, seconds=STOP_SECONDS) as client,
            ):
                await cancel_task(client, running.progress.task_id)

    async def _card(self, agent: "Agent", address: "Address") -> "AgentCard":
        from agent.agents.a2a.exchange import GARBAGE, to_card
        from agent.agents.a2a.http import FRESH

        entry = self._cards.get(agent.id)
        now = asyncio.get_running_loop().time()
        if entry is not None and entry.address == address and now < entry.until:
            return entry.card
        response = None
        for url in list_card_urls(address.url):
            response = await self._http.get(
                url,
                headers=FRESH | {**address.headers},
                trusted=True,
                follow_redirects=False,
                timeout_seconds=CARD_SECONDS,
                max_bytes=MAX_CARD_BYTES,
            )
            if response.status not in (404, 405):
                break
        if response is None or response.status != 200:
            status = response.status if response else "none"
            raise Unavailable(f"{agent.name} has no agent card at {address.url} (HTTP status {status}).")
        document = response.json()
        if depth(document) > MAX_DEPTH:
            raise Unavailable(f"The agent card of {agent.name} is nested too deep.")
        try:
            content = json.dumps(clean_json(document))
            card = to_card(json.loads(content))
        except GARBAGE as error:
            raise Unavailable(f"What {agent.name} has at {response.url} is no agent card.") from error
        self._cards[agent.id] = _Kept(card, address, now + CARD_LIFE_SECONDS)
        await self._note(statements.store_card, agent, card=content)
        return card

    async def _to_answer(self, name: str, address: "Address", progress: "TaskProgress") -> PeerAnswer:
        from agent.agents.a2a.exchange import ASKS_BACK, PeerRefused, is_done
        from agent.agents.a2a.http import origin_of

        if not is_done(progress.state) and progress.state not in ASKS_BACK:
            raise PeerRefused(f"{name} did not do it: {cut(progress.text, MAX_NOTE) or 'it does not say why.'}")
        files, notes = [], []
        parts = [part for part in progress.parts if part.HasField("raw") or part.HasField("url")]
        for part in parts[:MAX_FILES]:
            response = None
            try:
                if not part.HasField("raw"):
                    # The row's headers are not sent: a link meant for us contains its own credentials.
                    is_own = origin_of(part.url) == address.origin
                    response = await self._http.get(
                        part.url, trusted=is_own, timeout_seconds=FILE_SECONDS, max_bytes=MAX_FILE_BYTES
                    )
                if response is not None and response.status != 200:
                    raise ToolError(f"its server answered with status {response.status}.")
            except ParleyError as error:
                notes.append(f"(The file {cut(clean(part.filename), 100) or 'that came with it'} is missing: {error})")
                continue
            content = part.raw if response is None else response.body
            files.append(PeerFile(part.filename or "file", part.media_type, content))
        text = "\n\n".join(paragraph for paragraph in (progress.text, *notes) if paragraph)
        is_finished = progress.state not in ASKS_BACK and progress.metadata.get("parley/finished") is not False
        return PeerAnswer(text, is_finished, tuple(files))

    async def _note(self, statement: Any, agent: "Agent", **values: Any) -> None:
        # Only information for the admin: if the database is down, the answer is still returned.
        with suppress(DatabaseLost):
            async with self._database.statement() as session:
                await session.execute(statement, {"id": agent.id, "url": agent.url, **values})


def list_card_urls(url: str) -> list[str]:
    """Return the candidate URLs of an agent's card.

    A URL that ends in `.json` is the card itself; otherwise the well-known paths under the URL and under its origin.
    """
    parts = urlsplit(url)
    if parts.path.endswith(".json"):
        return [url]
    root = f"{parts.scheme}://{parts.netloc}"
    bases = dict.fromkeys((f"{root}{parts.path.rstrip('/')}", root))
    return [f"{base}{path}" for path in WELL_KNOWN for base in bases]
