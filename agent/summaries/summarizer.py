"""Writes the summaries that are due: claims conversations, asks the model, checks what it wrote and stores it."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.billing.budget import PaidCall
from agent.llm.completions import CallObserver, Completion, ModelRequest, RejectedCall
from agent.llm.router import Router
from agent.llm.tokens import count_prompt
from agent.memories.facts import Fact, KnownFacts, list_known, read_facts, store_facts
from agent.prompts import prompts
from agent.summaries import claims
from agent.summaries.claims import Claim, NewSummary
from agent.summaries.extract import extract, find_missing
from agent.summaries.source import Source, read_source, to_transcript
from agent.summaries.validation import find_fault
from shared.clock import Clock
from shared.db.database import Database
from shared.errors import Unavailable
from shared.log import get_logger
from shared.memory.memories import Memories
from shared.messages import EstimatedUsage
from shared.tasks import shield_until_done

PURPOSE = "summary"
# Conversations that one worker summarises at once.
WIDTH = 4
CALL_SECONDS = 90.0
MAX_OUTPUT_TOKENS = 2000
SOURCE_TOKENS = 12_000
# Of a model's window: the rest is for the notes, the answer and a tokenizer that counts more than we do.
WINDOW_SHARE = 0.4
SCHEMA = {
    "type": "object",
    "properties": {
        "summary": {"type": "string"},
        "facts": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "message": {"type": "integer"},
                    "fact": {"type": "string"},
                    "confidence": {"type": "number"},
                    "replaces": {"type": ["integer", "null"]},
                },
                "required": ["message", "fact", "confidence", "replaces"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["summary", "facts"],
    "additionalProperties": False,
}

log = get_logger()


@dataclass(frozen=True, slots=True)
class _Asked:
    # What a model call gave: the completion, or why there is none. `paid` are its calls for the ledger.
    completion: Completion | None
    fault: str = ""
    paid: Sequence[PaidCall] = field(default_factory=tuple)


class Summarizer:
    """Writes summaries until none is due; each call of `run` is one round. Several processes may do so at once."""

    def __init__(self, database: Database, router: Router, memory: Memories, clock: Clock) -> None:
        self._database, self._router, self._memory, self._clock = database, router, memory, clock

    async def run(self) -> int:
        """Summarise all conversations that are due; return how many were looked at."""
        count = 0
        while claimed := await self._claim():
            count += len(claimed)
            results = await asyncio.gather(*(self._summarise(each) for each in claimed), return_exceptions=True)
            for error in results:
                if isinstance(error, BaseException):
                    # The others are done; this one is claimed again when its lease has expired.
                    raise error
        return count

    async def _claim(self) -> list[Claim]:
        async with self._database.statement() as session:
            return await claims.claim(session, WIDTH)

    async def _summarise(self, claimed: Claim) -> None:
        if claimed.tokens_held:
            await self._charge_estimate(claimed)
        if not claimed.is_wanted:
            async with self._database.statement() as session:
                await claims.postpone(session, claimed)
            return
        model = await self._router.find_summary_model()
        async with self._database.statement() as session:
            source = await read_source(session, claimed, self._source_tokens(model))
        if not source.lines:
            async with self._database.statement() as session:
                await claims.close(session, claimed)
            return
        if model is None:
            content = extract(claimed.summary, source.lines)
            await self._store(claimed, NewSummary(content, source.last_turn_id, None, has_more=source.has_more))
        else:
            await self._ask_and_store(claimed, source, model)

    async def _charge_estimate(self, claimed: Claim) -> None:
        # A worker died during its call, which the provider may bill: the prompt is charged. What it held goes back.
        model = await self._router.find_summary_model()
        usage = EstimatedUsage(max(0, claimed.tokens_held - MAX_OUTPUT_TOKENS))
        async with self._database.transaction() as session:
            await claims.pay(session, claimed, [PaidCall(model or "unknown", usage, PURPOSE)])

    def _source_tokens(self, model: str | None) -> int:
        window = self._router.window((model,)) if model is not None else None
        return SOURCE_TOKENS if window is None else min(SOURCE_TOKENS, int(window * WINDOW_SHARE))

    async def _ask_and_store(self, claimed: Claim, source: Source, model: str) -> None:
        known = await list_known(self._memory, claimed.place, list(source.statements.values()))
        request = to_request(claimed, source, known, model=model)
        tokens = count_prompt(request.messages) + request.max_tokens
        price = self._router.highest_price(model)
        cost = None if price is None else tokens * price
        async with self._database.statement() as session:
            if not await claims.hold(session, claimed, tokens, cost=cost):
                await claims.fail(session, claimed, "the budget does not admit it")
                return
        asked = await self._ask(claimed, request)
        if asked.completion is None:
            await self._fail(claimed, asked, asked.fault)
            return
        content, listed = read_answer(asked.completion.text)
        fault = "the answer was cut" if asked.completion.stop == "max_tokens" else None
        fault = fault or find_fault(content, source.lines, claimed.summary)
        if fault is not None:
            await self._fail(claimed, asked, fault)
            return
        missing = find_missing(content, source.lines)
        stored = NewSummary(
            f"{content}\n{missing}".strip(),
            source.last_turn_id,
            asked.completion.model,
            has_more=source.has_more,
        )
        await self._store(claimed, stored, asked.paid, facts=read_facts(listed, source.statements, known))

    async def _ask(self, claimed: Claim, request: ModelRequest) -> _Asked:
        spent: list[RejectedCall] = []
        deadline = self._clock.monotonic() + CALL_SECONDS
        try:
            completion = await self._router.complete(
                request, deadline=deadline, observer=CallObserver(spent=spent), is_background=True
            )
        except Unavailable as error:
            return _Asked(None, f"no model answered: {error}", _to_paid(spent))
        except asyncio.CancelledError:
            # The worker stops: what was spent is paid, and another worker begins again at once.
            await shield_until_done(self._fail(claimed, _Asked(None, paid=_to_paid(spent)), "the worker stopped"))
            raise
        return _Asked(completion, paid=_to_paid([*spent, RejectedCall(completion.model, completion.usage)]))

    async def _fail(self, claimed: Claim, asked: _Asked, fault: str) -> None:
        async with self._database.transaction() as session:
            await claims.pay(session, claimed, asked.paid)
            await claims.fail(session, claimed, fault)
        log.warning("summary_failed", conversation=claimed.id, cause=fault)

    async def _store(
        self, claimed: Claim, new: NewSummary, paid: Sequence[PaidCall] = (), facts: Sequence[Fact] = ()
    ) -> None:
        async with self._database.transaction() as session:
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


def to_request(claimed: Claim, source: Source, known: KnownFacts, *, model: str) -> ModelRequest:
    """Return the request for the summary that follows the conversation's last one."""
    texts = prompts().summary
    notes = texts.notes.format(notes=claimed.summary) if claimed.summary else texts.no_notes
    listed = [f"({each.id}) {each.content}" for facts in known.values() for each in facts]
    parts = [notes, texts.known.format(facts="\n".join(listed))] if listed else [notes]
    parts += [texts.transcript.format(transcript=to_transcript(source.lines))]
    if claimed.error:
        parts.append(texts.rejected.format(reason=claimed.error))
    return ModelRequest(
        messages=(
            {"role": "system", "content": texts.instructions},
            {"role": "user", "content": "\n\n".join(parts)},
        ),
        tools=(),
        max_tokens=MAX_OUTPUT_TOKENS,
        models=(model,),
        temperature=0.0,
        answer_schema=SCHEMA,
    )


def read_answer(answer: str) -> tuple[str, Any]:
    """Return the summary and the facts in a model's answer, which is JSON or, from a weak model, the summary itself."""
    found = _to_object(answer)
    if found is None:
        return answer.strip(), None
    summary = found.get("summary")
    return (summary.strip() if isinstance(summary, str) else ""), found.get("facts")


def _to_object(answer: str) -> dict[str, Any] | None:
    start, end = answer.find("{"), answer.rfind("}")
    if start < 0 or end < start:
        return None
    try:
        found = json.loads(answer[start : end + 1])
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _to_paid(calls: Sequence[RejectedCall]) -> tuple[PaidCall, ...]:
    return tuple(PaidCall(each.model, each.usage, PURPOSE) for each in calls)
