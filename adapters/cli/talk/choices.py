"""What a person chooses for a question: the model, the persona, the conversation."""

from typing import TYPE_CHECKING
from uuid import uuid4

from msgspec.structs import replace

from adapters.terminal.client import Client
from adapters.terminal.person import terminal_place
from shared.db.errors import refusals
from shared.db.statements import load_statements
from shared.errors import Refusal
from shared.messages import Place, ProgramRequest, Sender

if TYPE_CHECKING:
    from adapters.cli.talk.local_worker import LocalWorker

statements = load_statements(__file__)


async def to_request(
    client: Client, worker: "LocalWorker", *, model: str | None, persona: str | None
) -> ProgramRequest | None:
    """Return what a message brings besides its text; raises `Refusal` for a model or persona that there is not."""
    if model is None and persona is None:
        return None
    persona_id = None
    if persona is not None:
        with refusals():
            async with client.database.statement() as session:
                persona_id = int((await session.execute(statements.get_persona, {"name": persona})).scalar_one())
    # Scripted answers stand for every model.
    if model is not None and client.settings.debug_mock_responses is None:
        await worker.check_model(model)
    return ProgramRequest(has_conversation=True, model=model, persona_id=persona_id)


async def find_place(client: Client, sender: Sender, *, is_continued: bool) -> Place:
    """Return the place of a new conversation of this person, or of the last one; raises `Refusal` if there is none."""
    place = terminal_place(sender)
    if not is_continued:
        return replace(place, thread=uuid4().hex)
    async with client.database.statement() as session:
        row = (await session.execute(statements.find_last_conversation, {"channel": place.channel})).one_or_none()
    if row is None:
        raise Refusal("There is no conversation to go on with yet; leave --continue out.")
    return replace(place, thread=row.thread)
