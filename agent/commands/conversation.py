"""The commands `/stop` and `/reset`, for the turn and the history of the current conversation."""

from sqlalchemy import func, select, text, update

from agent.commands.base import Request, command
from agent.live.channels import request_stop
from agent.turn.confirmations.rows import close_questions
from shared.models import Conversation, Turn
from shared.permissions import Permission

# Where a deleted message makes the summaries behind it be written again, this is where they begin.
AFRESH = text("""
WITH removed AS (DELETE FROM summaries WHERE conversation_id = :id AND last_turn_id < :last)
INSERT INTO summaries (conversation_id, last_turn_id, content) VALUES (:id, :last, '')
ON CONFLICT (conversation_id, last_turn_id) DO UPDATE SET content = ''
""")


@command("/stop")
async def stop(request: Request) -> str:
    """Stop the answer that is being worked on; admins stop anybody's."""
    whose = None if request.user.may(Permission.ADMIN) else request.user.id
    if await request_stop(request.app.database, request.place, whose):
        return "Stopping."
    return "Nothing of yours is running here." if whose else "Nothing is running here."


@command("/reset", is_private=False)
async def reset(request: Request) -> str:
    """Begin the conversation afresh; nothing is deleted, and memories stay."""
    if not request.place.is_direct:
        # The history of a channel is shared by its members, so guests may not reset it.
        request.require(Permission.USER)
    place = request.place
    last = select(func.coalesce(func.max(Turn.id), 0)).where(Turn.conversation_id == Conversation.id).scalar_subquery()
    query = (
        update(Conversation)
        .where(
            Conversation.platform == place.platform,
            Conversation.platform_server_id.is_not_distinct_from(place.server),
            Conversation.platform_channel_id == place.channel,
            Conversation.platform_thread_id.is_not_distinct_from(place.thread),
        )
        .values(
            window_turn_id=last + 1,
            summary=None,
            is_summarized=False,
            summarized_turn_id=last,
            # A summary that a worker is writing just now is not stored.
            summary_claimed_until=None,
        )
        .returning(Conversation.id, Conversation.summarized_turn_id)
    )
    async with request.app.database.transaction() as session:
        row = (await session.execute(query)).first()
        if row is not None:
            await session.execute(AFRESH, {"id": row.id, "last": row.summarized_turn_id})
            await close_questions(session, row.id)
    if row is None:
        return "Nothing has been said here yet."
    return "I begin afresh: earlier messages are kept, but I no longer look at them here."
