"""Answers recorded turns again with a changed persona; recorded results stand for the tools, which do not run."""

import json
from collections.abc import Mapping, Sequence
from itertools import count

from msgspec import Struct, field
from msgspec.structs import replace

from agent.commands.dry_run.recorded import RecordedTurn
from agent.journal.steps import PastStep, Step, ToolUse, TurnKey, TurnLog
from agent.llm.completions import CallObserver, Completion, ModelRequest, RejectedCall, count_prompt
from agent.people.billing.budget import (
    Admission,
    AdmissionStatus,
    PaidCall,
    RefusingLimit,
    get_budget_status,
    to_admission,
    to_json,
)
from agent.people.participants import Participants, ResolvedPersona
from agent.tools.offer import Scope
from agent.turn.context.builder import Context, PromptParts, assemble, estimate
from agent.turn.modes import Mode, ModelTurn
from agent.turn.running import Request, RunningTurn, Spend, Start
from agent.turn.services import TurnServices
from shared.db.statements import load_statements
from shared.errors import Refusal, Unavailable
from shared.messages import IncomingMessage, PlatformContext, Sender, Usage

statements = load_statements(__file__)

PURPOSE = "dry_run"

Results = Mapping[tuple[str, str], Step]


class Prepared(Struct, frozen=True):
    """A turn that is ready to be answered again, with about how many tokens that takes, and at most how many dollars.

    `dollars` is None when the price of a model that may answer is unknown.
    """

    recorded: RecordedTurn
    turn: RunningTurn
    context: Context
    tokens: int
    dollars: float | None


class Replayed(Struct, frozen=True):
    """The new answer to a recorded turn.

    `would_call` are the calls that nobody can answer, because they were not made then: with them the replay ends.
    `error` is the code of the error that ended it.
    """

    prepared: Prepared
    text: str
    model: str | None
    usage: Usage
    calls: tuple[str, ...] = ()
    would_call: tuple[str, ...] = ()
    error: str | None = None


class DryRun(Struct, frozen=True):
    """Answers recorded turns again; `payer_id` is the user who pays for it."""

    services: TurnServices
    payer_id: int
    numbers: "count[int]" = field(default_factory=count)

    def prepare(self, record: RecordedTurn, persona: ResolvedPersona) -> Prepared:
        """Build the prompt of a recorded turn with this persona, and estimate the cost."""
        turn = self._to_turn(record, persona)
        parts = PromptParts(
            user=record.user,
            persona=persona,
            conversation=record.conversation,
            history=record.history,
            message=PastStep(record.id, record.user.id, record.steps[0]),
            instructions=turn.offer.instructions,
            platform_context=PlatformContext(),
        )
        context = assemble(parts, record.memories, now=record.started_at)
        model_calls, usage = record.work.model_calls, record.work.usage
        prompt_tokens = model_calls * (count_prompt(context.messages) + turn.offer.tokens)
        output_tokens = usage.output_tokens or model_calls * persona.max_output_tokens
        return Prepared(
            record,
            turn,
            context,
            tokens=prompt_tokens + output_tokens,
            dollars=turn.spend.cost_of(prompt_tokens + output_tokens),
        )

    async def replay(self, prepared: Prepared) -> Replayed:
        """Ask the model until it answers, or calls a tool in another way than the recorded turn did.

        It has the time of a turn.
        """
        deadline = self.services.clock.monotonic() + self.services.settings.turn_deadline_seconds
        turn, recorded_steps = prepared.turn, prepared.recorded.steps
        results_by_id = {step.tool.call_id: step for step in recorded_steps if step.role == "tool_result"}
        results = {
            _key(step): results_by_id[step.tool.call_id]
            for step in recorded_steps
            if step.role == "tool_call" and step.tool.call_id in results_by_id
        }
        mode = self.services.models.modes[turn.loop_mode]
        unknown: Sequence[Step] = ()
        answer_text, error = "", None
        try:
            while not (answer_text or unknown):
                answer = mode.read(turn, await self._ask(turn, mode.request(turn, prepared.context), deadline))
                if answer.is_answer:
                    answer_text = answer.text or "(empty)"
                else:
                    unknown, answer_text = _play_results(turn, mode, answer=answer, results=results)
        except (Refusal, Unavailable) as failure:
            answer_text, error = str(failure), failure.code
        calls = [step for step in turn.log.steps if step.role == "tool_call"]
        return Replayed(
            prepared,
            # Beside calls that nobody can answer the model may have written something.
            text=answer_text or ("" if turn.log.last_answer is None else turn.log.last_answer.content),
            model=turn.spend.model,
            usage=turn.spend.usage,
            calls=tuple(_describe(call) for call in calls if call not in unknown),
            would_call=tuple(map(_describe, unknown)),
            error=error,
        )

    async def _ask(self, turn: RunningTurn, request: ModelRequest, deadline: float) -> Completion:
        parameters = {"user_id": self.payer_id, "cost": turn.spend.cost_of(turn.spend.estimate)}
        async with self.services.database.statement() as session:
            status = await get_budget_status(session, self.payer_id)
            admission = to_admission((await session.execute(statements.admit_call, parameters)).one())
        if status.limit is not None and status.used + status.reserved + turn.spend.estimate > status.limit:
            raise RefusingLimit("person", "30 days", status.renews_on).to_refusal()
        if not admission.is_admitted:
            raise admission.refusal()
        spent: list[RejectedCall] = []
        try:
            completion = await self.services.models.router.complete(
                request,
                deadline=deadline,
                observer=CallObserver(spent=spent, attempts=turn.spend.decisions.attempts),
                is_background=True,
            )
            spent.append(RejectedCall(completion.model, completion.usage))
        finally:
            calls = [PaidCall(call.model, call.usage, PURPOSE) for call in spent]
            if calls:
                async with self.services.database.statement() as session:
                    await session.execute(statements.charge_call, {"user_id": self.payer_id, "calls": to_json(calls)})
                turn.spend.add_usage(calls)
        return completion

    def _to_turn(self, record: RecordedTurn, persona: ResolvedPersona) -> RunningTurn:
        services, conversation = self.services, record.conversation
        scope = Scope(
            record.user.as_caller(), persona, conversation.place, modules=record.modules, agents=record.agents
        )
        offer = services.toolbox.offered_to(scope)
        began, key = services.clock.monotonic(), TurnKey(record.id, attempt=0)
        message = IncomingMessage(
            adapter=PURPOSE,
            sender=Sender(conversation.place.platform, str(record.user.id), record.user.name),
            place=conversation.place,
            event_id="",
            content=record.question,
            sent_at=record.started_at,
        )
        tokens = estimate(
            persona,
            conversation,
            history=record.history,
            steps=record.steps[:1],
            offer=offer,
            memory_limit=len(record.memories),
        )
        mode = persona.loop_mode if persona.loop_mode in services.models.modes else None
        return RunningTurn(
            key=key,
            request=Request(message, history=record.history),
            participants=Participants(record.user, persona, conversation, turn_id=record.id, agents=record.agents),
            scope=scope,
            offer=offer,
            start=Start(began, began + services.settings.turn_deadline_seconds),
            loop_mode=mode or "native",
            announcer=services.events.announcer(key),
            log=TurnLog(record.id, record.steps[:1]),
            spend=Spend(
                Admission(AdmissionStatus.ADMITTED),
                tokens,
                price=services.models.router.highest_price(persona.model),
                purpose=PURPOSE,
                numbers=self.numbers,
            ),
        )


def _play_results(turn: RunningTurn, mode: Mode, *, answer: ModelTurn, results: Results) -> tuple[Sequence[Step], str]:
    # Adds the answer and the recorded results of its calls to the log. Returns the calls that have none, and what ends
    # the turn: the message of a tool, or the response of a plan whose calls have succeeded; else empty.
    turn.log.append([answer.to_step(turn.log.next_seq), *answer.calls])
    calls: Sequence[Step] = answer.calls
    unknown: Sequence[Step] = ()
    while calls and not unknown:
        unknown = [call for call in calls if _key(call) not in results]
        steps = [
            replace(
                results[_key(call)],
                seq=turn.log.result_seq(call),
                tool=ToolUse(call.tool.call_id, call.tool.name, outcome=results[_key(call)].tool.outcome),
            )
            for call in calls
            if call not in unknown
        ]
        turn.log.append(steps)
        calls = () if unknown else mode.ready_calls(turn, steps)
        turn.log.append(calls)
    for step in turn.log.last_results:
        tool = turn.offer.find(step.tool.name)
        value = step.value if tool is not None and tool.ends_turn and step.tool.outcome == "result" else None
        if isinstance(value, dict) and isinstance(value.get("message"), str):
            return unknown, str(value["message"])
    return unknown, mode.find_response(turn)


def _key(call: Step) -> tuple[str, str]:
    return call.tool.name, json.dumps(call.value, sort_keys=True)


def _describe(call: Step) -> str:
    return f"{call.tool.name}({call.content})"
