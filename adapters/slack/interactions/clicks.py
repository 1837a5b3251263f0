"""What happens when somebody presses a button below an answer."""

import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from adapters.chat import buttons
from adapters.chat.buttons import Button, find_button
from adapters.slack.events.incoming import PLATFORM
from adapters.slack.interactions.actors import Actor
from adapters.slack.interactions.respond import url_of
from adapters.slack.sending.buttons import ACTION_ID, without_buttons
from adapters.slack.transport.api import Json
from agent.confirmations.approvers import to_answer_of_asked
from agent.queue.inbox import accept
from shared.errors import ConfirmationClosed, ParleyError, Refusal
from shared.log import get_logger
from shared.messages import Attachment, Decision, IncomingMessage

if TYPE_CHECKING:
    from slack_bolt.async_app import AsyncApp

    from adapters.chat.running import Running
    from adapters.slack.interactions.actors import Actors
    from adapters.slack.interactions.respond import Responses
    from agent.app import App

FAILED = "That did not work: {reason}"
TAKEN = "That was taken already."
OURS = re.compile(rf"^{ACTION_ID}:")

log = get_logger()


class Clicks:
    """Takes clicks by what their buttons say. Each of them acts once, however often it comes."""

    def __init__(self, app: "App", actors: "Actors", responses: "Responses", running: "Running") -> None:
        self._app, self._actors, self._responses, self._running = app, actors, responses, running
        self._actions: dict[str, Callable[[Json, Actor, Button], Awaitable[None]]] = {
            buttons.STOP: self._stop,
            buttons.AGAIN: self._ask_again,
            buttons.CHOICE: self._choose,
            buttons.GOOD: self._vote,
            buttons.BAD: self._vote,
        }

    async def take(self, ack: Any, body: Json) -> None:
        """Take a click: Slack is told at once, what it does is done beside that."""
        await ack()
        self._running.start(self._take(body), "slack click")

    async def _take(self, body: Json) -> None:
        button = find_button(str((body.get("actions") or [{}])[0].get("value", "")))
        action = self._actions.get(button.action) if button is not None else None
        url = url_of(body)
        if button is None or action is None:
            return
        try:
            actor = await self._actors.meet_in(body)
            if actor is None:
                return
            # Who may answer a question for confirmation is looked up with the question.
            if actor.sender.platform_user_id != button.asker and button.action != buttons.CHOICE:
                await self._refuse(body, button)
            elif button.is_over(self._app.clock.now()):
                await self._responses.whisper(url, buttons.OVER)
            else:
                await action(body, actor, button)
        except Refusal as error:
            await self._responses.whisper(url, str(error))
        except ParleyError as error:
            log.warning("slack_click_failed", action=button.action, cause=str(error))
            await self._responses.whisper(url, FAILED.format(reason=error))

    async def _stop(self, body: Json, _visitor: Actor, button: Button) -> None:
        is_stopping = await buttons.stop(self._app, button)
        await self._responses.whisper(url_of(body), buttons.STOPPING if is_stopping else buttons.ENDED)

    async def _ask_again(self, body: Json, actor: Actor, button: Button) -> None:
        row = await self._find(body, button)
        if row is None:
            return
        asked = buttons.find_question(row)
        if asked is None:
            await self._responses.whisper(url_of(body), buttons.WITHDRAWN)
            return
        message = self._message(actor, button, row, asked.content, asked.files)
        await self._store(body, message)

    async def _choose(self, body: Json, actor: Actor, button: Button) -> None:
        row = await self._find(body, button)
        if row is None:
            return
        if button.index >= len(row.choices):
            await self._responses.whisper(url_of(body), buttons.GONE)
            return
        choice = str(row.choices[button.index])
        # A question that needs a yes is answered by its id, whatever was said since.
        decision = None if row.confirmation_id is None else Decision(row.confirmation_id, choice == buttons.YES)
        message = self._message(actor, button, row, choice, decision=decision)
        # What is closed is told by the turn, to whoever was asked.
        with suppress(ConfirmationClosed):
            message = await to_answer_of_asked(self._app, message)
        if message.sender.platform_user_id != button.asker:
            await self._refuse(body, button)
            return
        await self._store(body, message, choice)

    async def _vote(self, body: Json, _visitor: Actor, button: Button) -> None:
        is_kept = await buttons.vote(self._app, button)
        await self._responses.whisper(url_of(body), buttons.THANKS if is_kept else buttons.GONE)

    async def _find(self, body: Json, button: Button) -> Any:
        row = await buttons.find_turn(self._app, button)
        if row is None:
            await self._responses.whisper(url_of(body), buttons.GONE)
        return row

    async def _refuse(self, body: Json, button: Button) -> None:
        await self._responses.whisper(url_of(body), buttons.NOT_YOURS.format(asker=button.asker.rpartition(":")[2]))

    async def _store(self, body: Json, message: IncomingMessage, chosen: str | None = None) -> None:
        if not (await accept(self._app.database, message)).is_new:
            await self._responses.whisper(url_of(body), TAKEN)
            return
        clicked = body.get("message") or {}
        blocks = without_buttons(clicked.get("blocks") or (), chosen)
        await self._responses.replace(url_of(body), str(clicked.get("text") or ""), blocks)

    def _message(
        self,
        actor: Actor,
        button: Button,
        row: Any,
        content: str,
        files: tuple[Attachment, ...] = (),
        decision: Decision | None = None,
    ) -> IncomingMessage:
        return IncomingMessage(
            adapter=PLATFORM,
            sender=actor.sender,
            place=buttons.to_place(row),
            # One for the turn and not for the click: a second one, or another button of the same row, is the same.
            event_id=f"{button.action}:{button.turn_id:x}",
            content=content,
            sent_at=self._app.clock.now(),
            attachments=files,
            decision=decision,
            platform_message_id=row.reply_to,
            platform_context=actor.platform_context,
        )


def register(bolt: "AsyncApp", clicks: Clicks) -> None:
    """Listen to buttons of ours."""
    bolt.action(OURS)(clicks.take)
