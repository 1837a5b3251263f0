"""Draws facts from conversations that go on: they are known before there is a pause, and thus a summary.

A claim of a conversation is that of its summary, so that one worker at a time reads it and pays for it; a message that
is deleted meanwhile ends it. `conversations.facts_turn_id` moves on with the facts of a summary, too: no turn is read
for facts twice.
"""

from collections.abc import Sequence
from functools import partial

from agent.llm.completions import ModelRequest
from agent.llm.router import Router
from agent.memory.facts import Fact, KnownFacts, list_known, read_facts, store_facts
from agent.memory.summaries import claims
from agent.memory.summaries.claims import Claim
from agent.memory.summaries.model import FACTS, ModelAnswer, SummaryModel, find_object
from agent.memory.summaries.source import Source, read_source, to_transcript
from agent.prompts import prompts
from shared.clock import Clock
from shared.db.database import Database
from shared.db.statements import load_statements
from shared.log import get_logger
from shared.memory.memories import Memories
from shared.messages import Sampling

statements = load_statements(__file__)

# So much is said before facts are drawn from it: turns, or tokens of people and agent together.
TURNS, TOKENS = 20, 2000
WIDTH = 4
MAX_OUTPUT_TOKENS = 1000
SCHEMA = {"type": "object", "properties": {"facts": FACTS}, "required": ["facts"], "additionalProperties": False}


log = get_logger()


class FactReader:
    """Draws the facts that are due; each call of `run` is one round. Several processes may do so at once."""

    def __init__(self, database: Database, router: Router, memory: Memories, clock: Clock) -> None:
        self._database, self._router, self._memory = database, router, memory
        self._model = SummaryModel(database, router, clock)

    async def run(self) -> int:
        """Read all conversations in which enough was said; return how many they were."""
        count = 0
        parameters = {"limit": WIDTH, "turns": TURNS, "tokens": TOKENS}
        while model := await self._router.find_summary_model():
            async with self._database.statement() as session:
                claimed = claims.to_claims((await session.execute(statements.claim_facts, parameters)).all())
            if not claimed:
                break
            count += len(claimed)
            await claims.work_on(claimed, partial(self._read, model=model))
        return count

    async def _read(self, claimed: Claim, *, model: str) -> None:
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
            await claims.lock_turns(session, [fact.statement.turn_id for fact in facts])
            if answer is not None:
                await claims.pay(session, claimed, answer.paid)
            result = await session.execute(statements.store_facts, claimed.key | {"last_turn_id": source.last_turn_id})
            is_stored = result.one().is_stored
            if is_stored and facts:
                await store_facts(session, self._memory, place=claimed.place, conversation_id=claimed.id, facts=facts)
        log.info("facts_drawn", conversation=claimed.id, facts=len(facts), is_stored=is_stored)

    async def _fail(self, claimed: Claim, answer: ModelAnswer, fault: str) -> None:
        async with self._database.transaction() as session:
            await claims.pay(session, claimed, answer.paid)
            await session.execute(statements.fail_facts, claimed.key)
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
