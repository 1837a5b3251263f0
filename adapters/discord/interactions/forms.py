"""The forms of admins as Discord's modals, for which three seconds are left after a command or a click."""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import discord

from adapters.chat.forms import (
    BACK,
    MENU,
    OPEN,
    SEND,
    VALUE,
    FormId,
    below_done,
    below_refused,
    menu_buttons,
)
from adapters.discord.events.incoming import PLATFORM, from_interaction
from adapters.discord.interactions.respond import (
    AT_ONCE_SECONDS,
    LABEL,
    SHORT,
    SORRY,
    TEXT_INPUT,
    Acknowledger,
)
from adapters.discord.sending.reply import GREY, in_rows
from adapters.discord.sending.response_writer import ResponseWriter
from adapters.discord.transport.rest import Json, insist
from agent.commands.forms.acts import ACTS
from agent.commands.forms.base import CHANNEL, PERSON, Asker, Done, Field
from agent.commands.forms.flow import check_admin, open_form, send_form, take_back
from shared.errors import ParleyError, Refusal, Unavailable
from shared.log import get_logger
from shared.text import abbreviate

if TYPE_CHECKING:
    from adapters.discord.transport.rest import Rest
    from agent.app import App

STRING_SELECT, USER_SELECT, CHANNEL_SELECT = 3, 5, 8
# Those with messages, and those with threads.
CHANNEL_TYPES = [0, 2, 5, 13, 15, 16]
LABEL_CHARS, OPTION_CHARS, FIELD_CHARS = 45, 100, 100
NO_MEMBER = "This person is not on this server."
NO_CHANNEL = "This channel is not on this server."

Result = TypeVar("Result")

log = get_logger()


class AdminForms:
    """Opens forms, and does what they ask for."""

    def __init__(self, app: "App", rest: "Rest", acknowledger: Acknowledger) -> None:
        self._app, self._rest, self._acknowledger = app, rest, acknowledger

    async def on_command(self, interaction: discord.Interaction, name: str) -> None:
        """Show the buttons of all forms, or open one."""
        if name:
            await self._show(interaction, name, {})
            return
        await self._in_time(check_admin(self._app, to_asker(interaction)))
        rows = to_button_rows(menu_buttons(ACTS, str(interaction.user.id)))
        await self._acknowledger.respond(interaction, MENU, is_private=True, rows=rows)

    async def on_click(self, interaction: discord.Interaction, button: FormId) -> None:
        """Open a form, or take back what one has done."""
        button.check(str(interaction.user.id), OPEN, BACK)
        if button.step == OPEN:
            await self._show(interaction, button.name, button.values)
            return
        change = take_back(self._app, to_asker(interaction), button.entries, event_id=str(interaction.id))
        await self._answer(interaction, change, [])

    async def on_submit(self, interaction: discord.Interaction, payload: Any, form: FormId) -> None:
        """Do what a form asks for; what is refused can be changed in the same form."""
        form.check(str(interaction.user.id), SEND)
        values = read_values(payload)
        again = below_refused(form.name, form.asker, values)

        async def send() -> Done:
            checked = check_values(interaction, payload, values)
            return await send_form(self._app, to_asker(interaction), form.name, values=checked, event_id=form.rest)

        await self._answer(interaction, send(), again)

    async def _show(self, interaction: discord.Interaction, name: str, values: Mapping[str, str]) -> None:
        form = await self._in_time(open_form(self._app, to_asker(interaction), name))
        asker = str(interaction.user.id)
        # The interaction's id makes a form that is sent twice one.
        custom_id = FormId(SEND, name, asker, rest=str(interaction.id)).to_id()
        labels = [to_label(field, values.get(field.name, field.value)) for field in form.fields]
        await self._acknowledger.show_form(
            interaction, {"custom_id": custom_id, "title": form.title, "components": labels}
        )

    async def _in_time(self, work: Awaitable[Result]) -> Result:
        # A form can only be the first response, so nothing can be said before.
        try:
            async with asyncio.timeout(AT_ONCE_SECONDS):
                return await work
        except TimeoutError:
            raise Unavailable("The database takes too long for a form.") from None

    async def _answer(self, interaction: discord.Interaction, work: Any, again: Sequence[tuple[FormId, str]]) -> None:
        """Do the work and say what came of it; after AT_ONCE_SECONDS the interaction is acknowledged before."""
        changing: asyncio.Task[Done] = asyncio.create_task(work, name="form")
        await asyncio.wait({changing}, timeout=AT_ONCE_SECONDS)
        if is_late := not changing.done():
            await self._acknowledger.defer(interaction, is_private=True)
        try:
            done = await changing
            text, rows = done.text, to_button_rows(below_done(done, str(interaction.user.id)))
        except ParleyError as error:
            # The sentence may repeat what was entered.
            log.info("form_refused", cause=error.code)
            text = str(error) if isinstance(error, Refusal) else SORRY
            rows = to_button_rows(again)
        if not is_late:
            await self._acknowledger.respond(interaction, text, is_private=True, rows=rows)
            return
        writer = ResponseWriter(self._rest, interaction.token, is_private=True)
        body: Json = {"content": text, "components": rows, "allowed_mentions": {"parse": []}}
        await insist(partial(writer.write, body, "form-0"))


def to_asker(interaction: discord.Interaction) -> Asker:
    """Return who uses a form, and where."""
    arrival = from_interaction(interaction, PLATFORM)
    return Asker(arrival.sender, arrival.place, arrival.platform_context)


def to_button_rows(buttons: Sequence[tuple[FormId, str]]) -> list[Json]:
    """Return buttons as rows of a message."""
    return in_rows(
        [{"type": 2, "style": GREY, "custom_id": button.to_id(), "label": label} for button, label in buttons]
    )


def to_label(field: Field, value: str | None) -> Json:
    """Return a field of a form, which begins with the value."""
    component: Json = {"custom_id": field.name, "required": field.is_required}
    if field.options or field.name in (PERSON, CHANNEL):
        component |= {"min_values": int(field.is_required), "max_values": 1}
    if field.options:
        options = [
            {"label": abbreviate(option.label, OPTION_CHARS), "value": f"{VALUE}{option.value}"}
            | ({"description": abbreviate(option.detail, OPTION_CHARS)} if option.detail else {})
            | ({"default": True} if option.value == value else {})
            for option in field.options
        ]
        component |= {"type": STRING_SELECT, "options": options}
    elif field.name in (PERSON, CHANNEL):
        kind = "user" if field.name == PERSON else "channel"
        component |= {"type": USER_SELECT if field.name == PERSON else CHANNEL_SELECT}
        component |= {"channel_types": CHANNEL_TYPES} if field.name == CHANNEL else {}
        component |= {"default_values": [{"id": value, "type": kind}]} if value else {}
    else:
        component |= {"type": TEXT_INPUT, "style": SHORT, "max_length": FIELD_CHARS}
        component |= {"value": value[:FIELD_CHARS]} if value else {}
    return {"type": LABEL, "label": abbreviate(field.label, LABEL_CHARS), "component": component}


def read_values(payload: Any) -> dict[str, str]:
    """Return what was entered into a form, by field."""
    components = [label.get("component") or {} for label in payload.get("components", ())]
    values = {}
    for component in components:
        chosen = component.get("values") or ()
        value = str(component.get("value") or "") or next((str(value) for value in chosen), "")
        if value:
            values[str(component.get("custom_id"))] = value.removeprefix(VALUE)
    return values


def check_values(interaction: discord.Interaction, payload: Any, values: Mapping[str, str]) -> Mapping[str, str]:
    """Return the values with the channel of a thread; raises `Refusal` for persons and channels of elsewhere."""
    guild, channel_id = interaction.guild, values.get(CHANNEL)
    resolved = payload.get("resolved") or {}
    if PERSON in values and values[PERSON] not in (resolved.get("users" if guild is None else "members") or {}):
        raise Refusal(NO_MEMBER)
    if channel_id is None:
        return values
    is_id = channel_id.isascii() and channel_id.isdecimal() and len(channel_id) <= 20
    channel = guild.get_channel_or_thread(int(channel_id)) if guild is not None and is_id else None
    if channel is None:
        raise Refusal(NO_CHANNEL)
    parent_id = channel.parent_id if isinstance(channel, discord.Thread) else channel.id
    return {**values, CHANNEL: str(parent_id)}
