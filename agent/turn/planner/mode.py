"""Planner mode: the model answers with plans whose calls may depend on each other; the last plan has the response.

The calls of a plan are recorded and run like native tool calls. After an invalid plan the model is told the error and
called again. A second invalid plan in a row ends the turn, unless it is plain prose, which then counts as the answer.
"""

from collections.abc import Sequence
from functools import cached_property

from agent.journal.steps import Step
from agent.llm.completions import Completion, ModelRequest
from agent.prompts import prompts
from agent.turn.context.builder import Context
from agent.turn.loop import steps_note
from agent.turn.modes import Listener, ModelTurn
from agent.turn.planner.execution import PlanObstacle, find_response, find_results, following_calls, ready_calls
from agent.turn.planner.messages import PlanWriter, count_form, to_planned
from agent.turn.planner.plan import (
    MAX_REASONING,
    SCHEMA,
    PlanBroken,
    PlannedTool,
    PlanningResult,
    arrange,
    find_open_response,
    read_part,
    read_plan,
    to_broken,
)
from agent.turn.policies.calls import MAX_CALLS, Policy
from agent.turn.running import RunningTurn
from shared.errors import PlanUnreadable
from shared.messages import Sampling
from shared.text import count_tokens, cut

# A stream is parsed again after this many new characters, or after 1/50 of its length if that is more, to bound the
# cost of long streams.
LOOK_CHARS = 24
LOOK_PART = 50


class PlannerMode:
    """Requests plans with plain-text instructions, and with a response schema for models that support one."""

    @cached_property
    def prompt_tokens(self) -> int:
        """Return an upper estimate of the tokens of the planning instructions in a prompt."""
        return count_form()

    def request(self, turn: RunningTurn, context: Context) -> ModelRequest:
        """Build the next request; it lists the tools even when none may run any more, so that prompt caches hit."""
        note = steps_note(turn) if turn.waves_left > 0 else prompts().planner.last_answer
        return ModelRequest(
            messages=(*context.messages, *to_planned(turn.log.in_order)),
            tools=turn.offer.schemas,
            max_tokens=turn.persona.max_output_tokens,
            models=turn.persona.models,
            position=turn.spend.next_number(),
            sampling=Sampling(temperature=0.0),
            tokens=turn.spend.estimate,
            images=context.images,
            answer_schema=SCHEMA,
            writer=PlanWriter(note if turn.log.waves else ""),
        )

    def listen(self) -> Listener | None:
        """Return a filter that extracts the response from a streamed plan."""
        return ResponseListener()

    def policies(self, turn: RunningTurn) -> Sequence[Policy]:
        """Return the policy that stops calls of a plan that cannot run."""
        return (PlanObstacle(turn.log),)

    def ready_calls(self, turn: RunningTurn, results: Sequence[Step]) -> Sequence[Step]:
        """Return the calls of the last plan that depend on these results and may run now."""
        return following_calls(turn, results)

    def find_response(self, turn: RunningTurn) -> str:
        """Return the response of the last plan if it is done and all its calls succeeded, otherwise an empty text."""
        return find_response(turn.log)

    def read(self, turn: RunningTurn, completion: Completion) -> ModelTurn:
        """Read a plan; an invalid one becomes a step with the error, so that the model can correct it.

        Raises `PlanUnreadable` when the answer before was invalid too.
        """
        try:
            return self._followed(turn, completion)
        except PlanBroken as error:
            last = turn.log.last_answer
            was_broken = last is not None and last.plan is not None and "broken" in last.plan
            text = completion.text.strip()
            if was_broken and text and "{" not in text:
                return _answer(completion, text, completion.thinking)
            if was_broken:
                raise PlanUnreadable from error
            journal_plan = to_broken(completion.text, error)
            return ModelTurn(
                text="",
                thinking=completion.thinking,
                stop=completion.stop,
                model=completion.model,
                is_answer=False,
                plan=journal_plan,
                token_count=count_tokens(journal_plan["broken"] + journal_plan["error"] + prompts().planner.broken),
            )

    def _followed(self, turn: RunningTurn, completion: Completion) -> ModelTurn:
        if completion.stop == "max_tokens":
            response = find_open_response(read_part(completion.text)).strip()
            if not response:
                raise PlanBroken(prompts().planner.cut)
            return _answer(completion, response, completion.thinking)
        if completion.tool_calls:
            # Native tool calls, despite the instructions, are treated as a plan of independent calls.
            tools = [PlannedTool(tool=call.name or "_", args=call.arguments) for call in completion.tool_calls]
            response = "" if "{" in completion.text else completion.text
            result = PlanningResult(status="continue", tools=tools, response=response)
        else:
            result = read_plan(completion.text)
        waves = turn.waves_left
        if waves <= 0:
            result = result.model_copy(update={"tools": []})
            if not (result.response or "").strip():
                raise PlanBroken(prompts().planner.no_answer_left)
        seq = turn.log.next_seq
        results = find_results(turn.log.turn_id, turn.log.steps, seq)
        plan = arrange(result, results, most_calls=MAX_CALLS + 1, waves_left=waves)
        thinking = cut(f"{completion.thinking}\n\n{plan.reasoning}".strip(), MAX_REASONING)
        if not plan.calls:
            return _answer(completion, plan.response, thinking)
        own = {call.id for call in plan.calls}
        earlier = {id_: step for id_, step in results.items() if id_ not in own}
        # Without the calls: their tokens are counted in their own steps.
        return ModelTurn(
            # The response of a plan that is done is shown only after its calls have succeeded.
            text="" if plan.status == "done" else plan.response,
            thinking=thinking,
            stop=completion.stop,
            model=completion.model,
            is_answer=False,
            calls=ready_calls(turn, plan, seq=seq, seqs=(), results=earlier),
            results=len(plan.calls),
            plan=plan.to_journal(),
            token_count=count_tokens(str({**plan.to_journal(), "tools": []})),
        )


class ResponseListener:
    """Extracts the response from a streamed plan; withholds it until the plan can no longer contain tool calls."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = self._looked_at = self._sent = 0

    def feed(self, piece: str) -> str:
        """Add a piece of the stream and return the new part of the response, possibly empty."""
        self._pieces.append(piece)
        self._length += len(piece)
        if self._length - self._looked_at < max(LOOK_CHARS, self._looked_at // LOOK_PART):
            return ""
        self._looked_at = self._length
        response = find_open_response(read_part("".join(self._pieces))).lstrip()
        new = response[self._sent :]
        self._sent += len(new)
        return new


def _answer(completion: Completion, text: str, thinking: str) -> ModelTurn:
    return ModelTurn(text=text, thinking=thinking, stop=completion.stop, model=completion.model, is_answer=True)
