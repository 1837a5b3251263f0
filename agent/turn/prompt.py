"""Before the first model call of a turn: files are stored, recordings transcribed, and the context is built."""

from msgspec import Struct
from msgspec.structs import replace

from agent.journal.records import record
from agent.journal.steps import Entry, PastStep, count_calls
from agent.people.billing.budget import release
from agent.turn.close import TurnResult
from agent.turn.context.attachments import (
    AttachmentStore,
    FailedFile,
    with_failed_files,
    with_failed_notice,
    with_unopened_notice,
)
from agent.turn.context.builder import Context, PromptParts, assemble, find_by_words, names_files, recall
from agent.turn.context.images import PromptImages, load_images
from agent.turn.context.recordings import Listener, Unheard, with_unheard, with_unheard_notice
from agent.turn.context.replied_to import find_replied_to
from agent.turn.context.requests import check_temperature, to_instructions
from agent.turn.running import RunningTurn
from agent.turn.services import TurnServices
from agent.turn.tool_models import ToolModels
from shared.tracing.spans import span


class Prompt(Struct, frozen=True):
    """The context of the turn's model calls, and the files of its message that are missing from it."""

    context: Context
    failed: tuple[FailedFile, ...]
    unheard: tuple[Unheard, ...]


async def build_prompt(services: TurnServices, turn: RunningTurn) -> Prompt:
    """Store the files of the message, write down what its recordings say, and build the context of the model calls."""
    failed = await store_files(services, turn) if turn.request.files else []
    unheard = await transcribe_recordings(services, turn) if turn.message.attachments else []
    with span("build_context", {}), turn.start.timings.measure("context", services.clock):
        step = turn.log.message
        if failed or unheard:
            step = replace(step, content=with_unheard(with_failed_files(step.content, failed), unheard))
        message = PastStep(turn.key.id, turn.user.id, step)
        history, request, instructions = turn.request.history, turn.message.request, turn.offer.instructions
        files = [(past.turn_id, past.step) for past in (*history, message) if names_files(past.step)]
        # Most messages reply to none.
        replied_to = None
        if turn.message.replied_to is not None:
            replied_to = await find_replied_to(
                services.database, turn.message, history, user_id=turn.user.id, conversation=turn.conversation
            )
        if request is not None:
            check_temperature(request, turn.persona.max_temperature)
            instructions = "\n\n".join(filter(None, (instructions, to_instructions(request))))
        parts = PromptParts(
            user=turn.user,
            persona=turn.persona,
            conversation=turn.conversation,
            history=history,
            message=message,
            images=await load_images(services.database, services.files.images, files) if files else PromptImages(),
            instructions=instructions,
            platform_context=turn.message.platform_context,
            replied_to=replied_to,
        )
        # With files, what the message says is known only now.
        by_words = turn.start.by_words or find_by_words(
            services.memory,
            turn.participants,
            message,
            history=history,
            limit=services.settings.memory_recall_limit,
        )
        memories = await recall(services.memory, turn.participants, message, by_words=by_words)
        context = assemble(parts, memories, now=services.clock.now())
    turn.log.keep_reasons(context.reasons)
    if services.models.router.counts_calls and turn.spend.numbers is None:
        async with services.database.statement() as session:
            turn.spend.number_calls(await count_calls(session, turn.conversation.id, turn.key.id))
    return Prompt(context, tuple(failed), tuple(unheard))


async def store_files(services: TurnServices, turn: RunningTurn) -> list[FailedFile]:
    """Fetch and store the files of the message; return those that could not be."""
    files = services.files
    attachments = AttachmentStore(
        services.database,
        files.storage,
        http=files.http,
        senders=services.outbox.senders,
        downloads=files.downloads,
        clock=services.clock,
    )
    async with turn.start.slot.released():
        failed = await attachments.store(turn.user.id, turn.request.files)
    # A worker that was frozen meanwhile has lost the turn: its next request would be paid by nobody.
    async with services.database.statement() as session:
        await record(session, turn.key, Entry())
    return failed


async def transcribe_recordings(services: TurnServices, turn: RunningTurn) -> list[Unheard]:
    """Add what is said in the recordings of the message to it; return those that could not be transcribed."""
    files = services.files.storage.of_user(services.database, turn.user.id, turn.conversation.id, turn.key.id)
    listener = Listener(services.database, files, services.settings, transcribe=ToolModels(services, turn).transcribe)
    recordings = await listener.find(turn.key, turn.message.attachments, turn.log.message)
    if recordings and turn.spend.admission.is_admitted:
        # The budget admits one model call of a turn after the other.
        async with services.database.statement() as session:
            await release(session, turn.key.id)
        turn.spend.release()
    before = turn.log.message
    message, unheard = await listener.listen(turn.key, before, recordings)
    turn.log.replace_message(message)
    turn.spend.grow(message.token_count - before.token_count)
    return unheard


def with_notices(services: TurnServices, turn: RunningTurn, prompt: Prompt, answer: TurnResult) -> TurnResult:
    """Add to an answer which files of the message were not read, and that none was opened if the sandbox is broken."""
    fault = services.files.storage.sandbox.fault
    if not (prompt.failed or prompt.unheard or fault):
        return answer
    text = with_unheard_notice(with_failed_notice(answer.text, prompt.failed), prompt.unheard)
    return replace(answer, text=with_unopened_notice(text, turn.log.steps, fault))
