"""The commands `/stop` and `/reset`, for the turn and the history of the current conversation."""

from msgspec.structs import asdict

from agent.commands.base import Request, command
from agent.live.channels import request_stop
from agent.turn.confirmations.rows import close_questions
from shared.db.statements import load_statements
from shared.messages import Permission

statements = load_statements(__file__)


@command("stop")
async def stop(request: Request, *_: str) -> str:
    """Stop the answer that is being worked on; admins stop anybody's."""
    whose = None if request.user.may(Permission.ADMIN) else request.user.id
    if await request_stop(request.app.database, request.place, whose):
        return "Stopping."
    return "Nothing of yours is running here." if whose else "Nothing is running here."


@command("reset", is_private=False)
async def reset(request: Request, *_: str) -> str:
    """Begin the conversation afresh; nothing is deleted, and memories stay."""
    if not request.place.is_direct:
        # The history of a channel is shared by its members, so guests may not reset it.
        request.require(Permission.USER)
    async with request.app.database.transaction() as session:
        row = (await session.execute(statements.begin_afresh, asdict(request.place))).one_or_none()
        if row is not None:
            await close_questions(session, row.id)
    if row is None:
        return "Nothing has been said here yet."
    return "I begin afresh: earlier messages are kept, but I no longer look at them here."
