"""The methods of A2A: a message goes through the inbox like any other, a task is read from the tables."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager, suppress

from a2a.server.context import ServerCallContext
from a2a.server.events import Event as A2AEvent
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.types.a2a_pb2 import (
    AgentCard,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
)
from a2a.utils.errors import (
    A2AError,
    ExtendedAgentCardNotConfiguredError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from a2a.utils.proto_utils import validate_proto_required_fields
from a2a.utils.task import apply_history_length, validate_history_length, validate_page_size

from adapters.a2a.incoming import caller_of, named_in, to_incoming
from adapters.a2a.listing import list_tasks
from adapters.a2a.tasks import TaskRow, TaskUpdates, find_row, find_task
from adapters.web.api.messages import accept_once, answer_to
from adapters.web.faults import Fault
from agent.app import App
from agent.people.hops import GoesInCircles, TooDeep
from agent.queue.abandonment import cancel
from agent.queue.inbox import Accepted
from shared.errors import Refusal, ToolError, Unavailable
from shared.messages import IncomingMessage, Sender

# The key of the HTTP request in the state of a call's context.
REQUEST = "request"
CANCEL_SECONDS = 10.0
NO_FOLLOW_UP = "A task takes one message. Go on without taskId, in the same context."
NAMELESS_LIST = "Name the person whose tasks these are in the headers Parley-Platform and Parley-User."
PAGE_SIZE = 50
ENDED = "This task has ended; get it by its id."


class TemporarilyUnavailable(A2AError):
    """Something that is needed can't be reached just now; the protocol has only its general error code for this."""


@contextmanager
def as_protocol_errors() -> Iterator[None]:
    """Replace our errors that the block raises by errors of the protocol."""
    try:
        yield
    except Fault as fault:
        raise InvalidParamsError(fault.message) from fault
    except (GoesInCircles, TooDeep) as error:
        raise UnsupportedOperationError(str(error), {"code": error.code}) from error
    except (Refusal, ToolError) as error:
        raise InvalidParamsError(str(error), {"code": error.code}) from error
    except Unavailable as error:
        raise TemporarilyUnavailable(str(error), {"code": error.code}) from error


class Endpoint(RequestHandler):
    """Answers the method calls of peers."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Task | Message:
        """Accept a message and return its task: when it has ended, or at once if the peer wants to poll."""
        with as_protocol_errors():
            accepted, message = await self._accept(params, context, wants_stream=False)
            if not params.configuration.return_immediately:
                # A peer that disconnects before it knows the task's id can't ask for it later: then the turn ends.
                await answer_to(context.state[REQUEST], accepted, message, is_named=False)
            return await self._task(str(accepted.inbox_id), message.sender)

    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[A2AEvent, None]:
        """Accept a message and yield the updates of its task."""
        with as_protocol_errors():
            accepted, message = await self._accept(params, context, wants_stream=True)
            async for update in self._follow(str(accepted.inbox_id), message.sender):
                yield update

    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[A2AEvent, None]:
        """Yield the updates of a task that has not ended."""
        validate_proto_required_fields(params)
        with as_protocol_errors():
            caller = caller_of(context.state[REQUEST].headers)
            if not (await self._row(params.id, caller)).is_open:
                raise UnsupportedOperationError(ENDED)
            async for update in self._follow(params.id, caller):
                yield update

    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task | None:
        """Return the current state of a task."""
        validate_proto_required_fields(params)
        validate_history_length(params)
        with as_protocol_errors():
            return apply_history_length(await self._task(params.id, caller_of(context.state[REQUEST].headers)), params)

    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task | None:
        """Cancel the turn of a task and return the task; a message whose turn has not begun is withdrawn."""
        validate_proto_required_fields(params)
        with as_protocol_errors():
            caller = caller_of(context.state[REQUEST].headers)
            row = await self._row(params.id, caller)
            if not row.is_open:
                raise TaskNotCancelableError
            if await cancel(self._app.database, row.inbox_id) == "stopped":
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._app.events.response(row.inbox_id), CANCEL_SECONDS)
            return await self._task(params.id, caller)

    async def _accept(
        self, params: SendMessageRequest, context: ServerCallContext, *, wants_stream: bool
    ) -> tuple[Accepted, IncomingMessage]:
        validate_proto_required_fields(params)
        headers = context.state[REQUEST].headers
        if params.message.task_id:
            await self._row(params.message.task_id, caller_of(headers))
            raise UnsupportedOperationError(NO_FOLLOW_UP)
        message = await to_incoming(self._app, params, headers, wants_stream=wants_stream)
        return await accept_once(self._app, message), message

    async def _follow(self, task_id: str, caller: Sender) -> AsyncGenerator[A2AEvent, None]:
        row = await self._row(task_id, caller)
        yield await self._task(task_id, caller)
        if not row.is_open:
            return
        updates = TaskUpdates(row)
        async for event in self._app.events.follow(row.inbox_id, is_late=row.turn_id is not None):
            for update in updates.of_event(event):
                yield update

    async def _row(self, task_id: str, caller: Sender) -> TaskRow:
        async with self._app.database.transaction() as session:
            row = await find_row(session, task_id, caller)
        if row is None:
            raise TaskNotFoundError
        return row

    async def _task(self, task_id: str, caller: Sender) -> Task:
        async with self._app.database.transaction() as session:
            task = await find_task(session, task_id, caller)
        if task is None:
            raise TaskNotFoundError
        return task

    async def on_list_tasks(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        """Return the tasks of the person whom the headers name."""
        validate_history_length(params)
        size = params.page_size if params.HasField("page_size") else PAGE_SIZE
        validate_page_size(size)
        with as_protocol_errors():
            sender = named_in(context.state[REQUEST].headers)
            if sender is None:
                raise InvalidParamsError(NAMELESS_LIST)
            async with self._app.database.transaction() as session:
                page = await list_tasks(session, sender, params, page_size=size)
        for task in page.tasks:
            task.CopyFrom(apply_history_length(task, params))
        return page

    async def on_get_extended_agent_card(
        self, params: GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> AgentCard:
        """Refuse: there is one card for everybody."""
        raise ExtendedAgentCardNotConfiguredError

    async def on_create_task_push_notification_config(
        self, params: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Refuse: we send no requests to an address that a caller chooses."""
        raise PushNotificationNotSupportedError

    async def on_get_task_push_notification_config(
        self, params: GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Refuse: there are no push notifications."""
        raise PushNotificationNotSupportedError

    async def on_list_task_push_notification_configs(
        self, params: ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> ListTaskPushNotificationConfigsResponse:
        """Refuse: there are no push notifications."""
        raise PushNotificationNotSupportedError

    async def on_delete_task_push_notification_config(
        self, params: DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        """Refuse: there are no push notifications."""
        raise PushNotificationNotSupportedError
