"""Draws facts from conversations that go on: they are known before there is a pause, and thus a summary.

A claim of a conversation is that of its summary, so that one worker at a time reads it and pays for it; a message that
is deleted meanwhile ends it. `conversations.facts_turn_id` moves on with the facts of a summary, too: no turn is read
for facts twice.
"""

import asyncio
from collections.abc import Sequence

from sqlalchemy import text

from agent.llm.completions import ModelRequest
from agent.llm.router import Router
from agent.memory.facts import Fact, KnownFacts, list_known, read_facts, store_facts
from agent.memory.summaries import claims
from agent.memory.summaries.claims import FIRST_WAIT_SECONDS, LEASE_SECONDS, LONGEST_WAIT_SECONDS, Claim
from agent.memory.summaries.model import FACTS, ModelAnswer, SummaryModel, find_object
from agent.memory.summaries.source import Source, read_source, to_transcript
from agent.prompts import prompts
from shared.clock import Clock
from shared.db.database import Database
from shared.log import get_logger
from shared.memory.memories import Memories
from shared.messages import Place, Sampling

# So much is said before facts are drawn from it: turns, or tokens of people and agent together.
TURNS, TOKENS = 20, 2000
# Only a turn that has ended since the last look makes a conversation due; after a pause its summary has the facts.
RECENT_MINUTES = 5
WIDTH = 4
MAX_OUTPUT_TOKENS = 1000
SCHEMA = {"type": "object", "properties": {"facts": FACTS}, "required": ["facts"], "additionalProperties": False}

# What is due for a summary, sooner or later, are the conversations in which something was said since the last one.
CLAIM = text(f"""
WITH due AS (
    SELECT id FROM conversations
    WHERE summary_due_at IS NOT NULL AND NOT summary_is_urgent
      AND last_active_at > now() - interval '1 minute'
          * CASE WHEN facts_retry_at IS NULL THEN {RECENT_MINUTES} ELSE {claims.IDLE_MINUTES} END
      AND (summary_claimed_until IS NULL OR summary_claimed_until < now())
      AND (facts_retry_at IS NULL OR facts_retry_at <= now())
      AND EXISTS (
          SELECT FROM (
              SELECT turns.id, (
                  SELECT sum(token_count) FROM messages
                  WHERE messages.turn_id = turns.id AND role IN ('user', 'assistant')
              ) AS tokens
              FROM turns
              WHERE turns.conversation_id = conversations.id AND turns.id > facts_turn_id AND status <> 'running'
                AND parent_turn_id IS NULL AND (NOT is_direct OR turns.user_id = conversations.user_id)
                AND NOT EXISTS (SELECT FROM forgotten_turns WHERE forgotten_turns.turn_id = turns.id)
              ORDER BY turns.id LIMIT {TURNS}
          ) AS said
          HAVING count(*) >= {TURNS} OR sum(tokens) >= {TOKENS}
      )
    ORDER BY last_active_at LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE conversations SET summary_claimed_until = clock_timestamp() + interval '{LEASE_SECONDS} seconds' FROM due
WHERE conversations.id = due.id
RETURNING conversations.id, platform, platform_server_id, platform_channel_id, platform_thread_id, is_direct, user_id,
          summary, facts_turn_id, summary_claimed_until AS lease, last_active_at, NULL AS error, true AS is_wanted,
          coalesce(
              (SELECT tokens FROM budget_reservations AS held WHERE held.conversation_id = conversations.id), 0
          ) AS tokens_held
""")
STORE = text("""
UPDATE conversations SET facts_turn_id = :last_turn_id, summary_claimed_until = NULL, facts_failures = 0,
    facts_retry_at = NULL
WHERE id = :id AND summary_claimed_until = :lease RETURNING id
""")
FAIL = text(f"""
UPDATE conversations SET summary_claimed_until = NULL, facts_failures = facts_failures + 1,
    facts_retry_at = now() + interval '1 second'
        * least({LONGEST_WAIT_SECONDS}, {FIRST_WAIT_SECONDS} * 2.0 ^ least(facts_failures, 16))
WHERE id = :id AND summary_claimed_until = :lease
""")

log = get_logger()


class FactReader:
    """Draws the facts that are due; each call of `run` is one round. Several processes may do so at once."""

    def __init__(self, database: Database, router: Router, memory: Memories, clock: Clock) -> None:
        self._database, self._router, self._memory = database, router, memory
        self._model = SummaryModel(database, router, clock)

    async def run(self) -> int:
        """Read all conversations in which enough was said; return how many they were."""
        count = 0
        while (model := await self._router.find_summary_model()) and (claimed := await self._claim()):
            count += len(claimed)
            results = await asyncio.gather(*(self._read(claim, model) for claim in claimed), return_exceptions=True)
            for error in results:
                if isinstance(error, BaseException):
                    # The others are done; this one is claimed again when its lease has expired.
                    raise error
        return count

    async def _claim(self) -> list[Claim]:
        async with self._database.statement() as session:
            rows = (await session.execute(CLAIM, {"limit": WIDTH})).all()
        return [Claim(row[0], Place(*row[1:6]), *row[6:]) for row in rows]

    async def _read(self, claimed: Claim, model: str) -> None:
        await self._model.charge_estimate(claimed)
        async with self._database.statement() as session:
            source = await read_source(session, claimed, self._model.source_tokens(model))
        if not source.statements:
            # Nobody typed anything, as in the turns of scheduled jobs.
            await (self._store(claimed, source) if source.lines else self._fail(claimed, ModelAnswer(None), "no text"))
            return
        facts_by_user = await list_known(self._memory, claimed.place, list(source.statements.values()))
        answer = await self._model.ask(claimed, to_request(claimed, source, facts_by_user, model=model), self._fail)
        if answer.completion is None:
            await self._fail(claimed, answer, answer.fault)
            return
        document = find_object(answer.completion.text)
        if document is None or answer.completion.stop == "max_tokens":
            await self._fail(claimed, answer, "the answer was cut" if document else "the answer is no JSON")
            return
        await self._store(
            claimed, source, answer, facts=read_facts(document.get("facts"), source.statements, facts_by_user)
        )

    async def _store(
        self, claimed: Claim, source: Source, answer: ModelAnswer | None = None, facts: Sequence[Fact] = ()
    ) -> None:
        async with self._database.transaction() as session:
            if answer is not None:
                await claims.pay(session, claimed, answer.paid)
            result = await session.execute(STORE, claimed.key | {"last_turn_id": source.last_turn_id})
            is_stored = bool(result.all())
            if is_stored and facts:
                await store_facts(session, self._memory, place=claimed.place, conversation_id=claimed.id, facts=facts)
        log.info("facts_drawn", conversation=claimed.id, facts=len(facts), is_stored=is_stored)

    async def _fail(self, claimed: Claim, answer: ModelAnswer, fault: str) -> None:
        async with self._database.transaction() as session:
            await claims.pay(session, claimed, answer.paid)
            await session.execute(FAIL, claimed.key)
        log.warning("facts_failed", conversation=claimed.id, cause=fault)


def to_request(claimed: Claim, source: Source, facts_by_user: KnownFacts, *, model: str) -> ModelRequest:
    """Return the request for the facts in what was said."""
    texts = prompts().summary
    parts = [texts.notes.format(notes=claimed.summary)] if claimed.summary else []
    lines = [f"({fact.id}) {fact.content}" for facts in facts_by_user.values() for fact in facts]
    parts += [texts.known.format(facts="\n".join(lines))] if lines else []
    parts.append(texts.transcript.format(transcript=to_transcript(source.lines)))
    return ModelRequest(
        messages=(
            {"role": "system", "content": f"{texts.only_facts}\n{texts.facts}"},
            {"role": "user", "content": "\n\n".join(parts)},
        ),
        tools=(),
        max_tokens=MAX_OUTPUT_TOKENS,
        models=(model,),
        sampling=Sampling(temperature=0.0),
        answer_schema=SCHEMA,
    )
