"""The forms of admins as Slack's views, opened within three seconds; what is refused stays open, with the reason."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from adapters.chat.forms import (
    BACK,
    MARK,
    MENU,
    OPEN,
    SEND,
    VALUE,
    VIEW,
    FormId,
    below_done,
    find_form_id,
    menu_buttons,
)
from adapters.slack.events.incoming import to_account
from adapters.slack.interactions.respond import (
    NO_FORM,
    NOT_INSTALLED,
    to_modal,
    to_plain_text,
    to_section,
    url_of,
)
from adapters.slack.transport.api import Json
from agent.commands.forms.acts import ACTS
from agent.commands.forms.base import CHANNEL, PERSON, Asker, Done, Field, OpenForm
from agent.commands.forms.flow import check_admin, open_form, send_form, take_back
from shared.errors import ParleyError, Refusal
from shared.log import get_logger
from shared.text import abbreviate

if TYPE_CHECKING:
    from adapters.base import Running
    from adapters.slack.events.directory import Directory
    from adapters.slack.interactions.actors import Actor, Actors
    from adapters.slack.interactions.respond import Responses
    from agent.app import App

TITLE = "Parley"
SORRY = "I can't do this just now; please send it again in a moment."
NO_MEMBER = "I find no such person in this workspace."
NO_CHANNEL = "I can't see this channel; invite me to it first."
WORKING = "One moment…"
# Of the three that Slack waits, for the database to answer before a form, and before its acknowledgement.
OPEN_SECONDS, SEND_SECONDS, LOOK_SECONDS = 2.0, 1.5, 0.8
LABEL_CHARS, TITLE_CHARS, FIELD_CHARS = 75, 24, 100
# What each kind of field calls the value that it begins with, and the one that was entered.
INITIAL = {
    "plain_text_input": ("initial_value", "value"),
    "static_select": ("initial_option", "selected_option"),
    "users_select": ("initial_user", "selected_user"),
    "conversations_select": ("initial_conversation", "selected_conversation"),
}

log = get_logger()


class AdminForms:
    """Opens forms, and does what they ask for."""

    def __init__(
        self, app: "App", actors: "Actors", responses: "Responses", *, directory: "Directory", running: "Running"
    ) -> None:
        self._app, self._actors, self._responses = app, actors, responses
        self._directory, self._running = directory, running

    async def open(self, body: Json, name: str) -> None:
        """Show the buttons of all forms after a command, or open one."""
        try:
            actor = await self._actors.find_actor(body.get("team_id"), str(body.get("user_id")))
            if actor is None:
                await self._responses.whisper(url_of(body), NOT_INSTALLED)
            elif name:
                await self._show(body, actor, name, channel=str(body.get("channel_id")))
            else:
                await check_admin(self._app, await self._to_asker(actor, str(body.get("channel_id"))))
                buttons = to_actions(menu_buttons(ACTS, actor.sender.platform_user_id))
                await self._responses.answer(url_of(body), MENU, [to_section(MENU), buttons])
        except (ParleyError, TimeoutError) as error:
            await self._apologise(body, error)

    async def on_click(self, body: Json) -> None:
        """Open a form, or take back what one has done."""
        button = find_form_id(str((body.get("actions") or [{}])[0].get("value", "")))
        try:
            actor = await self._actors.find_payload_actor(body)
            if button is None or actor is None:
                return
            button.check(actor.sender.platform_user_id, OPEN, BACK)
            if button.step == OPEN:
                await self._show(body, actor, button.name, channel=str((body.get("channel") or {}).get("id")))
            else:
                await self._take_back(body, actor, button)
        except (ParleyError, TimeoutError) as error:
            await self._apologise(body, error)

    async def on_submit(self, ack: Any, body: Json) -> None:
        """Do what a form asks for; if it is refused, the form stays open with the reason."""
        sending = asyncio.create_task(self._send(body), name="slack form")
        await asyncio.wait({sending}, timeout=SEND_SECONDS)
        if not sending.done():
            await ack(response_action="update", view=to_view([to_section(WORKING)]))
            self._running.start(self._show_late(body, sending), "slack form")
            return
        outcome = sending.result()
        if isinstance(outcome, Refusal):
            fields = [block["block_id"] for block in body["view"]["blocks"] if block.get("type") == "input"]
            field = outcome.fields.get("field")
            await ack(response_action="errors", errors={field if field in fields else fields[0]: str(outcome)})
        else:
            await ack(response_action="update", view=to_view(outcome))

    async def _send(self, body: Json) -> list[Json] | Refusal:
        """Return the blocks that say what was done, or why nothing was."""
        view = body["view"]
        form = find_form_id(str(view.get("private_metadata")))
        try:
            actor = await self._actors.find_payload_actor(body)
            if actor is None:
                return Refusal(NOT_INSTALLED)
            asker = actor.sender.platform_user_id
            if form is None:
                raise Refusal
            form.check(asker, SEND)
            values = await self._check(actor, read_values(view))
            who = await self._to_asker(actor, form.rest)
            # The view's id makes a form that is sent twice one.
            outcome = await send_form(self._app, who, form.name, values=values, event_id=str(view["id"]))
        except (ParleyError, TimeoutError) as error:
            # The sentence may repeat what was entered.
            log.info("form_refused", cause=getattr(error, "code", "timeout"))
            return error if isinstance(error, Refusal) else Refusal(SORRY)
        return to_result(outcome, asker, form.rest)

    async def _show_late(self, body: Json, sending: "asyncio.Task[list[Json] | Refusal]") -> None:
        outcome, view = await sending, body["view"]
        shown = to_again(view, str(outcome)) if isinstance(outcome, Refusal) else to_view(outcome)
        await self._update(body, view["id"], shown)

    async def _update(self, body: Json, view_id: str, view: Json) -> None:
        actor = await self._actors.find_payload_actor(body)
        if actor is not None:
            await actor.web.find("views.update", view_id=view_id, view=view)

    async def _take_back(self, body: Json, actor: "Actor", button: FormId) -> None:
        view_id, asker = str((body.get("view") or {}).get("id")), actor.sender.platform_user_id
        who = await self._to_asker(actor, button.name)
        try:
            outcome = await take_back(self._app, who, button.entries, event_id=f"{view_id}:{button.rest}")
            blocks = to_result(outcome, asker, button.name)
        except ParleyError as error:
            log.info("form_refused", cause=error.code)
            blocks = [to_section(str(error) if isinstance(error, Refusal) else SORRY)]
        await self._update(body, view_id, to_view(blocks))

    async def _show(self, body: Json, actor: "Actor", name: str, *, channel: str) -> None:
        async with asyncio.timeout(OPEN_SECONDS):
            who = await self._to_asker(actor, channel)
            form = await open_form(self._app, who, name)
        view = to_form(form, FormId(SEND, name, actor.sender.platform_user_id, rest=channel))
        await actor.web.call("views.open", max_wait=0, trigger_id=body.get("trigger_id"), view=view)

    async def _to_asker(self, actor: "Actor", channel: str) -> Asker:
        place = await self._actors.find_place(actor, channel)
        return Asker(actor.sender, place, actor.platform_context)

    async def _check(self, actor: "Actor", values: Mapping[str, str]) -> Mapping[str, str]:
        """Return the values with the person's account; raises `Refusal` for persons and channels of elsewhere."""
        person, channel = values.get(PERSON), values.get(CHANNEL)
        checked = dict(values)
        async with asyncio.timeout(LOOK_SECONDS):
            if person is not None:
                user = (await actor.web.find("users.info", user=person) or {}).get("user")
                if user is None:
                    raise Refusal(NO_MEMBER, field=PERSON)
                checked[PERSON] = to_account(person, str(user.get("team_id") or actor.team_id), actor.web.token)
            if channel is not None and (await self._directory.find_channel(actor.web, channel)).name is None:
                raise Refusal(NO_CHANNEL, field=CHANNEL)
        return checked

    async def _apologise(self, body: Json, error: Exception) -> None:
        if not isinstance(error, Refusal):
            log.warning("slack_form_not_opened", cause=str(error))
        await self._responses.whisper(url_of(body), str(error) if isinstance(error, Refusal) else NO_FORM)


def read_values(view: Json) -> dict[str, str]:
    """Return what was entered into a form, by field."""
    values = {}
    for fields in ((view.get("state") or {}).get("values") or {}).values():
        for name, field in fields.items():
            value = field.get(INITIAL.get(str(field.get("type")), ("", "value"))[1])
            value = value.get("value") if isinstance(value, dict) else value
            if value:
                values[str(name)] = str(value).removeprefix(VALUE)
    return values


def to_form(form: OpenForm, form_id: FormId) -> Json:
    """Return a form as a view."""
    blocks, title = [to_input(field) for field in form.fields], abbreviate(form.title, TITLE_CHARS)
    names = {"callback_id": VIEW, "private_metadata": form_id.to_id()}
    return to_modal(title, blocks, close="Cancel", submit="Do it", **names)


def to_input(field: Field) -> Json:
    """Return a field as a block."""
    element: Json = {"action_id": field.name}
    if field.options:
        options = {
            option.value: {
                "text": to_plain_text(abbreviate(option.label, LABEL_CHARS)),
                "value": f"{VALUE}{option.value}",
            }
            | ({"description": to_plain_text(abbreviate(option.detail, LABEL_CHARS))} if option.detail else {})
            for option in field.options
        }
        element |= {"type": "static_select", "options": list(options.values())}
        element |= {"initial_option": options[field.value]} if field.value in options else {}
    elif field.name == PERSON:
        element |= {"type": "users_select"} | ({"initial_user": field.value} if field.value else {})
    elif field.name == CHANNEL:
        element |= {"type": "conversations_select", "filter": {"include": ["public", "private"]}}
        # A direct message is none of those that the list has.
        is_listed = field.value is not None and not field.value.startswith("D")
        element |= {"initial_conversation": field.value} if is_listed else {}
    else:
        element |= {"type": "plain_text_input", "max_length": FIELD_CHARS}
        element |= {"initial_value": field.value} if field.value else {}
    label = to_plain_text(field.label)
    return {
        "type": "input",
        "block_id": field.name,
        "label": label,
        "optional": not field.is_required,
        "element": element,
    }


def to_again(view: Json, problem: str) -> Json:
    """Return a form as it was sent, with what was entered and why it was refused."""
    entered = (view.get("state") or {}).get("values") or {}
    blocks = []
    for block in view["blocks"]:
        element = dict(block.get("element") or {})
        field = (entered.get(block.get("block_id")) or {}).get(element.get("action_id")) or {}
        initial, chosen = INITIAL.get(str(element.get("type")), ("", ""))
        element.pop(initial, None)
        element |= {initial: field[chosen]} if field.get(chosen) else {}
        blocks.append(block | ({"element": element} if element else {}))
    fields = ("callback_id", "private_metadata", "title", "submit", "close")
    return {"type": "modal", "blocks": [to_section(problem), *blocks]} | {name: view[name] for name in fields}


def to_result(outcome: Done, asker: str, channel: str) -> list[Json]:
    """Return the blocks that say what was done, with the button that takes it back."""
    buttons = below_done(outcome, asker, where=channel)
    return [to_section(outcome.text), *([to_actions(buttons)] if buttons else [])]


def to_view(blocks: list[Json]) -> Json:
    """Return a view that only shows something."""
    return to_modal(TITLE, blocks)


def to_actions(buttons: Sequence[tuple[FormId, str]]) -> Json:
    """Return a row of buttons."""
    elements = [
        {"type": "button", "action_id": f"{MARK}:{index}", "text": to_plain_text(label), "value": button.to_id()}
        for index, (button, label) in enumerate(buttons)
    ]
    return {"type": "actions", "elements": elements}
