"""A person's tasks, the newest first, a page at a time."""

from a2a.types.a2a_pb2 import ListTasksRequest, ListTasksResponse, TaskState
from a2a.utils.errors import InvalidParamsError
from sqlalchemy import case, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from adapters.a2a.tasks import CHANGED_AT, OPEN, REFUSALS, find_task, rows_of
from agent.people.hops import CHANNEL
from shared.errors import Stopped
from shared.messages import Sender
from shared.models import InboxMessage, Turn
from shared.text import to_id

ERROR = func.coalesce(
    Turn.error, case((InboxMessage.status == "cancelled", Stopped.code), (InboxMessage.status == "failed", "parked"))
)
# As `TaskEnd.state` has it.
STATE = case(
    (InboxMessage.status == "waiting", int(OPEN["waiting"])),
    (InboxMessage.status == "claimed", int(OPEN["claimed"])),
    (ERROR.is_(None), int(TaskState.TASK_STATE_COMPLETED)),
    (ERROR.in_([Stopped.code]), int(TaskState.TASK_STATE_CANCELED)),
    (ERROR.in_(REFUSALS) & (func.coalesce(Turn.iterations, 0) == 0), int(TaskState.TASK_STATE_REJECTED)),
    else_=int(TaskState.TASK_STATE_FAILED),
)


async def list_tasks(
    session: AsyncSession, sender: Sender, params: ListTasksRequest, *, page_size: int
) -> ListTasksResponse:
    """Return a page of this person's tasks; the token of the next page is the id of the last task.

    Raises `InvalidParamsError` for a token that is none.
    """
    query = rows_of(sender)
    if params.context_id:
        query = query.where(InboxMessage.platform_channel_id == f"{CHANNEL}{params.context_id}")
    if params.status:
        query = query.where(STATE.in_([int(params.status)]))
    if params.HasField("status_timestamp_after"):
        after = params.status_timestamp_after.ToDatetime().astimezone()
        query = query.where(after <= CHANGED_AT)
    total = (await session.execute(select(func.count()).select_from(query.subquery()))).scalar_one()
    if params.page_token:
        before = to_id(params.page_token)
        if before is None:
            raise InvalidParamsError("pageToken: this is no token of a page before")
        query = query.where(InboxMessage.id < before)
    rows = (await session.execute(query.order_by(InboxMessage.id.desc()).limit(page_size + 1))).all()
    tasks = [task for row in rows[:page_size] if (task := await find_task(session, str(row.id), sender)) is not None]
    if not params.include_artifacts:
        for task in tasks:
            task.ClearField("artifacts")
    next_page = tasks[-1].id if len(rows) > page_size else ""
    return ListTasksResponse(tasks=tasks, next_page_token=next_page, page_size=page_size, total_size=total)
