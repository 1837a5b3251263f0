"""What a program's request brings to the prompt of one turn: its own history, and instructions that rank below ours."""

from msgspec.structs import replace

from agent.journal.quotes import without_context_tags
from agent.journal.steps import PastStep, Step
from agent.people.participants import Participants
from agent.people.personas import get_persona
from agent.prompts import prompts
from agent.tools.calls import Taint
from shared.db.driver import Session
from shared.errors import TemperatureTooHigh
from shared.messages import ProgramRequest
from shared.settings import Settings
from shared.text import count_tokens


def brings_history(request: ProgramRequest) -> bool:
    """Return whether the history of the prompt is that of the request, and not that of the conversation."""
    return bool(request.history) or not request.has_conversation


def to_own_history(request: ProgramRequest) -> list[PastStep]:
    """Return the request's history as that of a prompt.

    Each message stands for a turn of nobody we know: of no turn of ours, so that it names no files, and without a
    person, so that its text counts as a stranger's.
    """
    count = len(request.history)
    return [
        PastStep(
            place - count,
            None,
            Step(0, earlier.role, earlier.content, token_count=count_tokens(earlier.content)),
        )
        for place, earlier in enumerate(request.history)
    ]


def to_instructions(request: ProgramRequest) -> str:
    """Return the request's instructions with the heading that ranks them; empty if there are none."""
    if not request.instructions.strip():
        return ""
    return f"{prompts().turn.program_heading}\n{without_context_tags(request.instructions)}"


def of_request(request: ProgramRequest) -> Taint:
    """Return the taint of what a request brings: its program may pass on what strangers wrote."""
    return Taint.UNTRUSTED if request.history or request.instructions else Taint.NONE


async def with_choices(
    session: Session, participants: Participants, request: ProgramRequest, *, settings: Settings
) -> Participants:
    """Return the participants as the request chooses and limits them.

    It may choose persona and model; it limits its answer's length, and its history stands for the summary.
    """
    persona, conversation = participants.persona, participants.conversation
    if request.persona_id is not None:
        persona = await get_persona(session, request.persona_id, participants.user.permission, settings=settings)
        persona = replace(persona, choice=replace(persona.choice, by="request"))
    if request.model is not None:
        persona = replace(persona, model=request.model)
    if request.max_tokens is not None:
        persona = replace(persona, max_output_tokens=min(persona.max_output_tokens, request.max_tokens))
    if brings_history(request):
        conversation = replace(conversation, summary=None)
    return replace(participants, persona=persona, conversation=conversation)


def check_temperature(request: ProgramRequest, highest: float | None) -> None:
    """Raise `TemperatureTooHigh` if a request asks for more than the persona allows."""
    temperature = request.sampling.temperature
    if highest is not None and temperature is not None and temperature > highest:
        raise TemperatureTooHigh(highest=highest)
