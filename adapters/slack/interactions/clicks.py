"""A press of a button on Slack: it is acknowledged at once, and acts once, however often it comes."""

import re
from typing import TYPE_CHECKING, Any

from adapters.chat.buttons import CHOICE, Button, find_button, to_place
from adapters.chat.clicks import Click, take_click
from adapters.slack.events.incoming import PLATFORM
from adapters.slack.interactions.respond import url_of
from adapters.slack.sending.buttons import ACTION_ID, without_buttons
from adapters.slack.transport.api import Json
from agent.queue.inbox import accept
from shared.errors import ParleyError, Refusal
from shared.log import get_logger
from shared.messages import IncomingMessage

if TYPE_CHECKING:
    from slack_bolt.async_app import AsyncApp

    from adapters.chat.running import Running
    from adapters.slack.interactions.actors import Actor, Actors
    from adapters.slack.interactions.respond import Responses
    from agent.app import App

FAILED = "That did not work: {reason}"
TAKEN = "That was taken already."
OURS = re.compile(rf"^{ACTION_ID}:")

log = get_logger()


class SlackClick(Click):
    """A block action; `body` is its payload, `actor` the person."""

    def __init__(self, app: "App", button: Button, actor: "Actor", *, body: Json, responses: "Responses") -> None:
        super().__init__(button, actor.sender.platform_user_id)
        self._app, self._actor, self._body, self._responses = app, actor, body, responses

    async def whisper(self, text: str) -> None:
        """Answer the person alone."""
        await self._responses.whisper(url_of(self._body), text)

    def to_message(self, row: Any, content: str) -> IncomingMessage:
        """Return the click as a message at the place of its question."""
        return IncomingMessage(
            adapter=PLATFORM,
            sender=self._actor.sender,
            place=to_place(row),
            # One for the turn and not for the click: a second one, or another button of the same row, is the same.
            event_id=f"{self.button.action}:{self.button.turn_id:x}",
            content=content,
            sent_at=self._app.clock.now(),
            platform_message_id=row.reply_to,
            platform_context=self._actor.platform_context,
        )

    async def store(self, message: IncomingMessage, row: Any) -> None:
        """Store the message, and show below the answer what was chosen."""
        if not (await accept(self._app.database, message)).is_new:
            await self.whisper(TAKEN)
            return
        chosen = str(row.choices[self.button.index]) if self.button.action == CHOICE else None
        clicked = self._body.get("message") or {}
        blocks = without_buttons(clicked.get("blocks") or (), chosen)
        await self._responses.replace(url_of(self._body), str(clicked.get("text") or ""), blocks)


class Clicks:
    """Finds out who has pressed what."""

    def __init__(self, app: "App", actors: "Actors", responses: "Responses", running: "Running") -> None:
        self._app, self._actors, self._responses, self._running = app, actors, responses, running

    async def take(self, ack: Any, body: Json) -> None:
        """Take a click: Slack is told at once, what it does is done beside that."""
        await ack()
        self._running.start(self._take(body), "slack click")

    async def _take(self, body: Json) -> None:
        button = find_button(str((body.get("actions") or [{}])[0].get("value", "")))
        if button is None:
            return
        try:
            actor = await self._actors.meet_in(body)
            if actor is not None:
                click = SlackClick(self._app, button, actor, body=body, responses=self._responses)
                await take_click(self._app, click)
        except Refusal as error:
            await self._responses.whisper(url_of(body), str(error))
        except ParleyError as error:
            log.warning("slack_click_failed", action=button.action, cause=str(error))
            await self._responses.whisper(url_of(body), FAILED.format(reason=error))


def register(bolt: "AsyncApp", clicks: Clicks) -> None:
    """Listen to buttons of ours."""
    bolt.action(OURS)(clicks.take)
