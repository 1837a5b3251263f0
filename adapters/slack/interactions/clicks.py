"""Clicks on buttons on Slack: acknowledged immediately, and handled once, however often Slack sends them."""

import re
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from adapters.chat.buttons import CHOICE, Button, find_button
from adapters.chat.clicks import Click, accept_click
from adapters.slack.events.incoming import PLATFORM
from adapters.slack.interactions.respond import REPLACE, in_background, url_of
from adapters.slack.sending.buttons import ACTION_ID, chosen_rows, to_click_id, without_buttons
from adapters.slack.transport.api import Json
from shared.errors import ParleyError, Refusal
from shared.log import get_logger
from shared.messages import IncomingMessage, Place

if TYPE_CHECKING:
    from slack_bolt.async_app import AsyncApp

    from adapters.base import Running
    from adapters.slack.interactions.actors import Actor, Actors
    from adapters.slack.interactions.respond import Responses
    from agent.app import App
    from agent.queue.outbox import Reply

FAILED = "That did not work: {reason}"
ALREADY_CHOSEN = "That was chosen already."
ACTION_IDS = re.compile(rf"^{ACTION_ID}:")

log = get_logger()


class SlackClick(Click):
    """A `block_actions` payload and the person who clicked."""

    def __init__(self, app: "App", button: Button, actor: "Actor", *, body: Json, responses: "Responses") -> None:
        place = Place(PLATFORM, actor.team_id, str((body.get("channel") or {}).get("id", "")))
        event_id, now = to_click_id(button.action, button.turn_id), app.clock.now()
        arrival = IncomingMessage(PLATFORM, actor.sender, place, event_id=event_id, content="", sent_at=now)
        super().__init__(button, replace(arrival, platform_context=actor.platform_context))
        self._app, self._body, self._responses = app, body, responses
        self.to = replace(self.to, response=f"{REPLACE}{url_of(body)}")

    async def whisper(self, text: str) -> None:
        """Post a message that only this person sees."""
        await self._responses.whisper(url_of(self._body), text)

    async def replace(self, reply: "Reply") -> None:
        """Replace the message with the button by the reply to its command."""
        await self._responses.change(url_of(self._body), reply.content)

    def to_message(self, row: Any, content: str) -> IncomingMessage:
        """Return the click as a message at the place of its question."""
        message = super().to_message(row, content)
        return replace(message, place=Place.from_row(row), platform_message_id=row.reply_to)

    async def store(self, message: IncomingMessage, row: Any) -> None:
        """Store the message, and replace the buttons by what was chosen."""
        if not (await self._app.inbox.accept(message)).is_new:
            await self.whisper(ALREADY_CHOSEN)
            return
        choice_rows = chosen_rows(str(row.choices[self.button.index])) if self.button.action == CHOICE else ()
        message_body = self._body.get("message") or {}
        blocks = [*without_buttons(message_body.get("blocks") or ()), *choice_rows]
        await self._responses.replace(url_of(self._body), str(message_body.get("text") or ""), blocks)


class Clicks:
    """Receives the clicks."""

    def __init__(self, app: "App", actors: "Actors", responses: "Responses") -> None:
        self._app, self._actors, self._responses = app, actors, responses

    async def run(self, body: Json) -> None:
        """Run the action of a click."""
        button = find_button(str((body.get("actions") or [{}])[0].get("value", "")))
        if button is None:
            return
        try:
            actor = await self._actors.find_payload_actor(body)
            if actor is not None:
                click = SlackClick(self._app, button, actor, body=body, responses=self._responses)
                await accept_click(self._app, click)
        except Refusal as error:
            await self._responses.whisper(url_of(body), str(error))
        except ParleyError as error:
            log.warning("slack_click_failed", action=button.action, cause=str(error))
            await self._responses.whisper(url_of(body), FAILED.format(reason=error))


def register(bolt: "AsyncApp", clicks: Clicks, running: "Running") -> None:
    """Register the listener for our buttons."""
    bolt.action(ACTION_IDS)(in_background(running, clicks.run, "slack click"))
