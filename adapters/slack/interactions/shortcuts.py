"""The shortcut "Ask Parley" in a message's menu: a form for the question, and the answer in the message's thread."""

import json
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from adapters.slack.events.incoming import PLATFORM, list_people, to_plain, to_quoted_message, to_text
from adapters.slack.install import CALLBACK
from adapters.slack.interactions.respond import NO_FORM, NOT_INSTALLED, to_modal, to_plain_text, to_reply_to, url_of
from adapters.slack.transport.api import Json
from shared.errors import ParleyError
from shared.log import get_logger
from shared.messages import IncomingMessage
from shared.text import clean, cut

if TYPE_CHECKING:
    from slack_bolt.async_app import AsyncApp

    from adapters.slack.events.directory import Directory
    from adapters.slack.interactions.actors import Actors
    from adapters.slack.interactions.respond import Responses
    from adapters.slack.transport.clients import Clients
    from agent.app import App

FORM = "parley_ask"
QUESTION = "question"
QUESTION_CHARS, QUOTE_CHARS, METADATA_CHARS = 3000, 800, 3000

log = get_logger()


class Shortcuts:
    """Opens the form, and accepts the question."""

    def __init__(
        self, app: "App", clients: "Clients", actors: "Actors", responses: "Responses", directory: "Directory"
    ) -> None:
        self._app, self._clients, self._actors = app, clients, actors
        self._responses, self._directory = responses, directory

    async def on_open(self, ack: Any, body: Json) -> None:
        """Open the form, which Slack allows for three seconds after the shortcut."""
        await ack()
        url, message = url_of(body), body.get("message")
        if not isinstance(message, dict) or "ts" not in message:
            return
        try:
            web = await self._clients.find((body.get("team") or {}).get("id"))
            if web is None:
                return
            # Without names of people: looking them up could take longer than three seconds.
            about = clean(to_text(message, web.token.bot_user_id, {}))
            await web.call("views.open", max_wait=0, trigger_id=body.get("trigger_id"), view=to_form(body, about))
        except ParleyError as error:
            log.warning("slack_form_not_opened", cause=str(error))
            await self._responses.whisper(url, NO_FORM)

    async def on_submit(self, ack: Any, body: Json) -> None:
        """Accept the question; if it can't be stored, the form stays open with the reason."""
        values = (body["view"].get("state") or {}).get("values") or {}
        question = str(values.get(QUESTION, {}).get(QUESTION, {}).get("value") or "")
        about: Json = json.loads(body["view"]["private_metadata"])
        try:
            actor = await self._actors.find_payload_actor(body)
            if actor is None:
                await ack(response_action="errors", errors={QUESTION: NOT_INSTALLED})
                return
            subject = {key: about[key] for key in ("channel", "ts", "user", "text")}
            names = await self._directory.list_names(actor.web, list_people([subject]))
            earlier = (to_quoted_message(subject, actor.web.token, names),)
            message = IncomingMessage(
                adapter=PLATFORM,
                sender=actor.sender,
                place=await self._actors.find_place(actor, about["channel"], about["thread"]),
                # The form's id makes a repeated submission a duplicate.
                event_id=f"form:{body['view']['id']}",
                content=to_plain(question, {}),
                sent_at=self._app.clock.now(),
                platform_message_id=to_reply_to(about["url"]),
                platform_context=replace(actor.platform_context, earlier=earlier),
            )
            await self._app.inbox.accept(message)
        except ParleyError as error:
            log.warning("slack_question_not_stored", cause=str(error))
            await ack(response_action="errors", errors={QUESTION: str(error)})
            return
        await ack()


def to_form(body: Json, about: str) -> Json:
    """Return the form for a question about a message; the message is kept in its metadata."""
    message, channel = body["message"], str((body.get("channel") or {}).get("id"))
    metadata: Json = {
        "channel": channel,
        "thread": message.get("thread_ts") or message["ts"],
        "ts": message["ts"],
        "user": str(message.get("user") or ""),
        "text": str(message.get("text") or ""),
        "url": url_of(body),
    }
    # Slack keeps 3,000 characters of metadata; a character outside ASCII takes six or more of them.
    while metadata["text"] and len(json.dumps(metadata)) > METADATA_CHARS:
        metadata["text"] = metadata["text"][: len(metadata["text"]) * 9 // 10]
    element: Json = {"type": "plain_text_input", "action_id": QUESTION, "multiline": True, "max_length": QUESTION_CHARS}
    label = to_plain_text("Your question about this message")
    blocks: list[Json] = [
        {"type": "context", "elements": [to_plain_text(cut(about, QUOTE_CHARS) or "…")]},
        {"type": "input", "block_id": QUESTION, "label": label, "element": element},
    ]
    names = {"callback_id": FORM, "private_metadata": json.dumps(metadata)}
    return to_modal("Ask Parley", blocks, close="Cancel", submit="Ask", **names)


def register(bolt: "AsyncApp", shortcuts: Shortcuts) -> None:
    """Register the listeners for the shortcut and its form."""
    bolt.message_shortcut(CALLBACK)(shortcuts.on_open)
    bolt.view_submission(FORM)(shortcuts.on_submit)
