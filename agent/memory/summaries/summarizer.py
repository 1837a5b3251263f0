"""Writes the summaries that are due: claims conversations, asks the model, checks what it wrote and stores it."""

from collections.abc import Sequence
from typing import Any

from agent.llm.completions import ModelRequest
from agent.llm.router import Router
from agent.memory.facts import Fact, KnownFacts, list_known, read_facts, store_facts
from agent.memory.summaries import claims
from agent.memory.summaries.claims import Claim, NewSummary
from agent.memory.summaries.extract import extract, find_missing
from agent.memory.summaries.model import FACTS, ModelAnswer, SummaryModel, find_object
from agent.memory.summaries.source import Source, read_source, to_transcript
from agent.memory.summaries.validation import find_fault
from agent.people.billing.budget import PaidCall
from agent.prompts import prompts
from shared.clock import Clock
from shared.db.database import Database
from shared.log import get_logger
from shared.memory.memories import Memories
from shared.messages import Sampling

# Conversations that one worker summarises at once.
WIDTH = 4
MAX_OUTPUT_TOKENS = 2000
SCHEMA = {
    "type": "object",
    "properties": {"summary": {"type": "string"}, "facts": FACTS},
    "required": ["summary", "facts"],
    "additionalProperties": False,
}

log = get_logger()


class Summarizer:
    """Writes summaries until none is due; each call of `run` is one round. Several processes may do so at once."""

    def __init__(self, database: Database, router: Router, memory: Memories, clock: Clock) -> None:
        self._database, self._router, self._memory = database, router, memory
        self._model = SummaryModel(database, router, clock)

    async def run(self) -> int:
        """Summarise all conversations that are due; return how many were looked at."""
        count = 0
        while True:
            async with self._database.statement() as session:
                claimed = await claims.claim(session, WIDTH)
            if not claimed:
                return count
            count += len(claimed)
            await claims.work_on(claimed, self._summarise)

    async def _summarise(self, claimed: Claim) -> None:
        await self._model.charge_estimate(claimed)
        if not claimed.is_wanted:
            async with self._database.statement() as session:
                await claims.postpone(session, claimed)
            return
        model = await self._router.find_summary_model()
        async with self._database.statement() as session:
            source = await read_source(session, claimed, self._model.source_tokens(model))
        if not source.lines:
            async with self._database.statement() as session:
                await claims.close(session, claimed)
            return
        if model is None:
            content = extract(claimed.summary, source.lines)
            await self._store(claimed, NewSummary(content, source.last_turn_id, None, has_more=source.has_more))
        else:
            facts_by_user = await list_known(self._memory, claimed.place, list(source.statements.values()))
            answer = await self._model.ask(claimed, to_request(claimed, source, facts_by_user, model=model), self._fail)
            if answer.completion is None:
                await self._fail(claimed, answer, answer.fault)
                return
            content, facts = read_answer(answer.completion.text)
            fault = "the answer was cut" if answer.completion.stop == "max_tokens" else None
            fault = fault or find_fault(content, source.lines, claimed.summary)
            if fault is not None:
                await self._fail(claimed, answer, fault)
                return
            details = find_missing(content, source.lines)
            summary = NewSummary(
                f"{content}\n{details}".strip(),
                source.last_turn_id,
                answer.completion.model,
                has_more=source.has_more,
            )
            await self._store(claimed, summary, answer.paid, facts=read_facts(facts, source.statements, facts_by_user))

    async def _fail(self, claimed: Claim, answer: ModelAnswer, fault: str) -> None:
        async with self._database.transaction() as session:
            await claims.pay(session, claimed, answer.paid)
            await claims.fail(session, claimed, fault)
        log.warning("summary_failed", conversation=claimed.id, cause=fault)

    async def _store(
        self, claimed: Claim, new: NewSummary, paid: Sequence[PaidCall] = (), facts: Sequence[Fact] = ()
    ) -> None:
        async with self._database.transaction() as session:
            await claims.lock_turns(session, [fact.statement.turn_id for fact in facts])
            if paid:
                await claims.pay(session, claimed, paid)
            is_stored = await claims.store(session, claimed, new)
            if is_stored and facts:
                await store_facts(session, self._memory, place=claimed.place, conversation_id=claimed.id, facts=facts)
        log.info(
            "conversation_summarised",
            conversation=claimed.id,
            model=new.model,
            facts=len(facts),
            is_stored=is_stored,
        )


def to_request(claimed: Claim, source: Source, facts_by_user: KnownFacts, *, model: str) -> ModelRequest:
    """Return the request for the summary that follows the conversation's last one."""
    texts = prompts().summary
    notes = texts.notes.format(notes=claimed.summary) if claimed.summary else texts.no_notes
    lines = [f"({fact.id}) {fact.content}" for facts in facts_by_user.values() for fact in facts]
    parts = [notes, texts.known.format(facts="\n".join(lines))] if lines else [notes]
    parts += [texts.transcript.format(transcript=to_transcript(source.lines))]
    if claimed.error:
        parts.append(texts.rejected.format(reason=claimed.error))
    return ModelRequest(
        messages=(
            {"role": "system", "content": f"{texts.instructions}\n{texts.facts}"},
            {"role": "user", "content": "\n\n".join(parts)},
        ),
        tools=(),
        max_tokens=MAX_OUTPUT_TOKENS,
        models=(model,),
        sampling=Sampling(temperature=0.0),
        answer_schema=SCHEMA,
    )


def read_answer(answer: str) -> tuple[str, Any]:
    """Return the summary and the facts in a model's answer, which is JSON or, from a weak model, the summary itself."""
    document = find_object(answer)
    if document is None:
        return answer.strip(), None
    summary = document.get("summary")
    return (summary.strip() if isinstance(summary, str) else ""), document.get("facts")
