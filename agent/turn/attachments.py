"""The files of the message that a turn answers: stored, and recordings transcribed, before its prompt is built."""

from agent.journal.records import record
from agent.journal.steps import Entry
from agent.people.billing.budget import release
from agent.turn.context.attachments import AttachmentStore, FailedFile
from agent.turn.context.recordings import Listener, Unheard
from agent.turn.running import RunningTurn
from agent.turn.services import TurnServices
from agent.turn.tool_models import ToolModels


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
