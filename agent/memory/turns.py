"""Makes each turn recallable: the person's messages and the agent's answer become memories soon after the turn ended.

The statement that ends a turn puts it on a list (`unremembered_turns`); the transaction that stores its memories takes
it off. So no reply waits for it, and a worker that dies in between loses nothing and stores nothing twice.
"""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from agent.journal.pastes import has_pastes
from agent.memory.deletion import DELETED
from agent.memory.recordings import list_transcripts
from agent.prompts import prompts
from shared.db.database import Database
from shared.db.errors import is_lost, server_errors
from shared.db.statements import load_statements
from shared.log import get_logger
from shared.memory.memories import Memories
from shared.memory.storage import NewMemory, Origin
from shared.messages import AGENT_ADAPTERS, Place
from shared.tools import Tool

statements = load_statements(__file__)

BATCH = 200


log = get_logger()


class TurnMemories:
    """Stores the memories of turns that have ended. `find_tool` returns the tool of a name, None if there is none."""

    def __init__(self, database: Database, memory: Memories, find_tool: Callable[[str], Tool | None]) -> None:
        self._database, self._memory, self._find_tool = database, memory, find_tool

    async def run(self) -> int:
        """Store the memories of all turns on the list; return how many turns there were."""
        count = 0
        while batch := await self._store_batch():
            count += batch
        return count

    async def _store_batch(self) -> int:
        try:
            return await self._store(BATCH)
        except server_errors() as error:
            if is_lost(error):
                raise
        # One of them can't be stored: the others must not wait for it.
        try:
            return await self._store(1)
        except server_errors() as error:
            if is_lost(error):
                raise
            async with self._database.transaction() as session:
                turn_ids = [row.turn_id for row in (await session.execute(statements.claim_turns, {"limit": 1})).all()]
                await session.execute(statements.end_turns, {"turn_ids": turn_ids})
            log.error("turn_not_remembered", turns=turn_ids, cause=type(getattr(error, "orig", error)).__name__)
            return len(turn_ids)

    async def _store(self, limit: int) -> int:
        async with self._database.transaction() as session:
            turn_ids = [row.turn_id for row in (await session.execute(statements.claim_turns, {"limit": limit})).all()]
            if not turn_ids:
                return 0
            parameters = {"turn_ids": turn_ids}
            # What an agent elsewhere writes on behalf of a person was not said by that person, nor was a scheduled job.
            messages = (
                await session.execute(statements.list_messages, parameters | {"agents": list(AGENT_ADAPTERS)})
            ).all()
            by_turn = {turn_id: list(rows) for turn_id, rows in groupby(messages, key=lambda row: row.turn_id)}
            turns = (await session.execute(statements.list_turns, parameters)).all()
            memories = [memory for turn in turns for memory in self._of_turn(turn, by_turn.get(turn.id, []))]
            await self._memory.add(memories, session)
            await session.execute(statements.end_turns, parameters)
        return len(turn_ids)

    def _of_turn(self, turn: Any, messages: Sequence[Any]) -> list[NewMemory]:
        place = Place(turn.platform, turn.server, channel=turn.channel, thread=turn.thread, is_direct=turn.is_direct)
        own = [
            (message.content, message.sent_at, message.message_id) for message in messages if message.content != DELETED
        ]
        if messages:
            transcripts = list_transcripts(turn.content or "", zip(turn.file_ids, turn.filenames, strict=True))
            spoken = [part for transcript in transcripts if transcript.has_speech for part in transcript.parts]
            own += [(content, messages[-1].sent_at, None) for content in spoken]
        memories = [
            NewMemory(
                turn.user_id,
                Origin(place, turn.conversation_id, turn_id=turn.id, message_id=message_id),
                content,
                said_at=said_at,
                speaker=turn.speaker,
                author="stranger" if has_pastes(content) else "person",
            )
            for content, said_at, message_id in own
        ]
        # An answer may repeat a message that was deleted or edited since. And what it took from somebody else's text
        # must not come back later as if it were the agent's own; what is said in a channel counts as others' anyway.
        tools = [self._find_tool(name) for name in turn.tools]
        is_own = (
            messages
            and all(message.content != DELETED and message.edited_at is None for message in messages)
            and not (turn.is_direct and turn.reads_untrusted)
            and prompts().voice.recording not in (turn.content or "")
            and all(tool is not None and not tool.reads_untrusted and not tool.resumable for tool in tools)
        )
        if turn.status == "answered" and turn.answer and is_own:
            origin = Origin(place, turn.conversation_id, turn_id=turn.id)
            answer = NewMemory(turn.user_id, origin, turn.answer, said_at=turn.finished_at, is_from_bot=True)
            memories.append(answer)
        return memories
