"""What is known before a turn is begun or taken over: its message, who takes part, and what may be used."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.confirmations.decisions import GivenAnswer, read_answer
from agent.context.builder import estimate
from agent.context.history import PastStep, load_history
from agent.journal.steps import Step
from agent.people.hops import inbound_hops
from agent.people.loop_modes import LoopMode, choose_mode
from agent.people.participants import Participants, resolve_participants
from agent.policies.taint import AGENT_ADAPTERS
from agent.queue.inbox import Job, Waiting
from agent.tools.offer import Offer, Scope
from agent.turn.services import TurnServices
from shared.db.driver import Connection
from shared.messages import IncomingMessage


@dataclass(frozen=True, slots=True)
class Opening:
    """What an attempt at a turn begins from; `answer`: the message may answer a question."""

    job: Job
    inbox_ids: tuple[int, ...]
    turn_id: int
    message: IncomingMessage
    participants: Participants
    scope: Scope
    offer: Offer
    history: tuple[PastStep, ...]
    answer: GivenAnswer | None


async def prepare(services: TurnServices, session: Connection, job: Job, run: Sequence[Waiting]) -> Opening:
    """Read all that the turn of these waiting messages begins from."""
    message = merge(run)
    participants = await resolve_participants(session, message, database=services.database, settings=services.settings)
    turn_id = run[0].turn_id or participants.turn_id
    history = await load_history(session, participants.conversation, user_id=participants.user.id, turn_id=turn_id)
    scope = Scope(
        user=participants.user.as_caller(),
        persona=participants.persona,
        place=message.place,
        agents=participants.agents,
        hops=inbound_hops(message.place),
        can_ask=message.adapter not in AGENT_ADAPTERS,
    )
    return Opening(
        job=job,
        inbox_ids=tuple(each.inbox_id for each in run),
        turn_id=turn_id,
        message=message,
        participants=participants,
        scope=scope,
        offer=services.toolbox.offered_to(scope),
        history=tuple(history),
        answer=read_answer(run),
    )


def choose_loop_mode(services: TurnServices, opening: Opening) -> LoopMode:
    """Return the mode of a new turn: as the persona or the settings say, where a model can and it is installed."""
    persona = opening.participants.persona
    if not services.router.can_plan((persona.model,) if persona.model else ()):
        return "native"
    percent = services.settings.planner_percent
    chosen = choose_mode(persona.loop_mode, opening.participants.conversation.id, percent)
    return chosen if chosen in services.modes else "native"


def estimate_first_call(services: TurnServices, opening: Opening, steps: Sequence[Step], loop_mode: LoopMode) -> int:
    """Return an upper estimate of the next model call of a turn with these steps, in tokens."""
    participants = opening.participants
    tokens = estimate(
        participants.persona,
        participants.conversation,
        history=opening.history,
        steps=steps,
        offer=opening.offer,
        memory_limit=services.settings.memory_recall_limit if participants.user.has_memories else 0,
    )
    return tokens + services.modes[loop_mode].prompt_tokens


def merge(run: Sequence[Waiting]) -> IncomingMessage:
    """Return one message for all that one person wrote in a row; it answers the last of them."""
    last = run[-1].message
    if len(run) == 1:
        return last
    return replace(
        last,
        content="\n".join(each.message.content for each in run),
        attachments=tuple(file for each in run for file in each.message.attachments),
        wants_stream=any(each.message.wants_stream for each in run),
        platform_context=replace(
            last.platform_context, earlier=tuple(line for each in run for line in each.message.platform_context.earlier)
        ),
    )
