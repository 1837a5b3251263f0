"""The form in which a person enters a credential, opened by `/parley credential set NAME`."""

from typing import TYPE_CHECKING, Any

from adapters.slack.interactions.respond import NO_FORM, NOT_INSTALLED, to_modal, to_plain_text, to_section, url_of
from adapters.slack.transport.api import Json
from agent import commands
from shared.credentials.people import MAX_CHARS
from shared.errors import ParleyError
from shared.log import get_logger

if TYPE_CHECKING:
    from slack_bolt.async_app import AsyncApp

    from adapters.slack.interactions.actors import Actors
    from adapters.slack.interactions.respond import Responses
    from adapters.slack.transport.clients import Clients
    from agent.app import App

FORM, FIELD = "parley_credential", "credential"
# The most that a text input of Slack takes.
MOST_CHARS = min(MAX_CHARS, 3000)
TITLE = "Your credential"

log = get_logger()


class CredentialForms:
    """Opens the form, and keeps what is entered."""

    def __init__(self, app: "App", clients: "Clients", actors: "Actors", responses: "Responses") -> None:
        self._app, self._clients, self._actors, self._responses = app, clients, actors, responses

    async def open(self, body: Json, name: str) -> None:
        """Open the form, which Slack allows for three seconds after the command."""
        try:
            web = await self._clients.find(body.get("team_id"))
            if web is not None:
                element = {"type": "plain_text_input", "action_id": FIELD, "max_length": MOST_CHARS}
                label = to_plain_text(f"The password or key for {name}")
                field: Json = {"type": "input", "block_id": FIELD, "label": label, "element": element}
                form = to_modal(TITLE, [field], submit="Keep", callback_id=FORM, private_metadata=name)
                await web.call("views.open", max_wait=0, trigger_id=body.get("trigger_id"), view=form)
        except ParleyError as error:
            log.warning("slack_form_not_opened", cause=str(error))
            await self._responses.whisper(url_of(body), NO_FORM)

    async def on_submit(self, ack: Any, body: Json) -> None:
        """Keep the credential; if it can't be kept, the form stays open with the reason."""
        view = body["view"]
        field = ((view.get("state") or {}).get("values") or {}).get(FIELD, {}).get(FIELD, {})
        try:
            actor = await self._actors.find_payload_actor(body)
            if actor is None:
                await ack(response_action="errors", errors={FIELD: NOT_INSTALLED})
                return
            name, value = str(view.get("private_metadata")), str(field.get("value") or "")
            confirmation = await commands.keep_credential(self._app, actor.sender, name, value=value)
        except ParleyError as error:
            await ack(response_action="errors", errors={FIELD: str(error)})
            return
        await ack(response_action="update", view=to_modal(TITLE, [to_section(confirmation)]))


def register(bolt: "AsyncApp", forms: CredentialForms) -> None:
    """Register the listener for the form."""
    bolt.view_submission(FORM)(forms.on_submit)
