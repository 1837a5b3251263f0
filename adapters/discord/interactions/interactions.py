"""Commands, menus, forms and clicks: acknowledged within three seconds; the answer may take longer."""

import asyncio
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import discord
from discord.enums import InteractionType
from msgspec.structs import replace

from adapters.chat.buttons import find_button
from adapters.chat.clicks import accept_click
from adapters.chat.forms import find_form_id
from adapters.chat.intake import to_file
from adapters.chat.undelivered import Destination, answered, keep, run_command
from adapters.discord.events.incoming import (
    PLATFORM,
    from_interaction,
    to_interaction_place,
    to_quoted_message,
    to_sender,
)
from adapters.discord.interactions import slash
from adapters.discord.interactions.clicks import DiscordClick
from adapters.discord.interactions.respond import AT_ONCE_SECONDS, SORRY, Acknowledger, Form, store, text_of
from adapters.discord.sending.reply import to_bodies
from adapters.discord.sending.response_writer import INTERACTION, WHISPER, ResponseWriter
from adapters.discord.transport.rest import UPLOAD_SECONDS, Refused, insist
from agent import commands
from agent.commands import CommandReply
from shared.credentials.people import MAX_CHARS
from shared.errors import ParleyError, Refusal, Unavailable
from shared.log import get_logger
from shared.messages import Attachment, QuotedMessage
from shared.text import cut

if TYPE_CHECKING:
    from adapters.discord.interactions.forms import AdminForms
    from adapters.discord.transport.rest import Rest
    from agent.app import App

SUMMARISE = "Summarise what was said from there on."
MOST_SUMMARISED = 100
FORM_PREFIX, CREDENTIAL_PREFIX = "parley-about", "parley-credential"
QUESTION_CHARS = 1500
QUESTION = Form("Ask about this", "Your question", QUESTION_CHARS, is_long=True)
# The longest label that Discord shows.
MAX_LABEL_CHARS = 45

log = get_logger()


class Unreadable(Refusal):
    """I can't read what was written there; I need the permission to read the history of this channel."""

    code = "unreadable"


class Interactions:
    """Handles interactions with the agent's commands, forms and buttons."""

    def __init__(self, app: "App", rest: "Rest") -> None:
        self._app, self._rest = app, rest
        self._acknowledger = Acknowledger(rest)

    @cached_property
    def _forms(self) -> "AdminForms":
        # Imported when an admin uses one: most processes never need them.
        from adapters.discord.interactions.forms import AdminForms

        return AdminForms(self._app, self._rest, self._acknowledger)

    async def on_interaction(self, interaction: discord.Interaction, me: int) -> None:
        """Handle one interaction; those of unknown buttons and forms are ignored."""
        payload: Any = interaction.data or {}
        try:
            if interaction.type is InteractionType.component:
                custom_id = str(payload.get("custom_id", ""))
                if (button := find_button(custom_id)) is not None:
                    click = DiscordClick(button, interaction, self._acknowledger, inbox=self._app.inbox)
                    await accept_click(self._app, click)
                elif (form_button := find_form_id(custom_id)) is not None:
                    await self._forms.on_click(interaction, form_button)
            elif interaction.type is InteractionType.modal_submit:
                await self._on_form(interaction, payload, me)
            elif interaction.type is InteractionType.application_command:
                await self._on_command(interaction, payload, me)
        except Refusal as refusal:
            await self._apologise(interaction, str(refusal))
        except ParleyError as error:
            log.warning("interaction_failed", kind=interaction.type.name, cause=str(error))
            await self._apologise(interaction, SORRY)

    async def put_off(self, interaction: discord.Interaction, reason: Unavailable) -> None:
        """Tell why nothing can be done for this server just now."""
        await self._apologise(interaction, str(reason))

    async def _apologise(self, interaction: discord.Interaction, messages: str) -> None:
        try:
            await self._acknowledger.apologise(interaction, messages)
        except ParleyError as error:
            log.info("apology_not_said", cause=str(error))

    async def _on_command(self, interaction: discord.Interaction, payload: Any, me: int) -> None:
        name, options = str(payload["name"]), list(payload.get("options", ()))
        if name == slash.ASK:
            values = {option["name"]: option["value"] for option in options}
            files = payload.get("resolved", {}).get("attachments", {})
            attachments = tuple(
                to_file(file["filename"], file.get("content_type"), file["size"], url=file["url"])
                for file_id, file in files.items()
                if file_id == str(values.get("file"))
            )
            await self._ask(interaction, str(values["question"]), files=attachments)
            return
        if name == slash.ABOUT_THIS:
            await self._acknowledger.ask_for_text(interaction, f"{FORM_PREFIX}:{payload['target_id']}", QUESTION)
            return
        if name == slash.FROM_HERE:
            await self._acknowledger.defer(interaction, is_private=True)
            after = str(int(payload["target_id"]) - 1)
            messages = await self._list_messages(interaction, after, me, most=MOST_SUMMARISED)
            if not messages:
                raise Unreadable
            await self._ask(interaction, SUMMARISE, earlier=messages, is_deferred_in_private=True)
            return
        line = slash.to_line(name, options)
        if (form := commands.find_form(line)) is not None:
            await self._forms.on_command(interaction, form)
        elif (credential_form := commands.find_credential_form(line)) is not None:
            # At once and without the database: a form can only be the first response.
            label = cut(f"The password or key for {credential_form}", MAX_LABEL_CHARS)
            question = Form("Your credential", label, MAX_CHARS)
            await self._acknowledger.ask_for_text(interaction, f"{CREDENTIAL_PREFIX}:{credential_form}", question)
        else:
            await self._run(interaction, name, line)

    async def _run(self, interaction: discord.Interaction, name: str, line: str) -> None:
        slash_command = next((command for command in commands.list_commands(PLATFORM) if command.name == name), None)
        place = to_interaction_place(interaction)
        arrival = from_interaction(interaction, self._rest.bot.adapter)
        response = f"{INTERACTION}:{interaction.token}"
        to = Destination(arrival.adapter, place, arrival.sender.platform_user_id, response=response)
        answering = asyncio.create_task(run_command(self._app, arrival, to, line=line), name="command")
        await asyncio.wait({answering}, timeout=AT_ONCE_SECONDS)
        # An error is raised where the answer is awaited.
        early = answering.result() if answering.done() and answering.exception() is None else None
        # Files can't be part of an immediate response.
        if is_deferred := not answering.done() or (early is not None and bool(early[1].files)):
            # What can't be acknowledged runs all the same, and can't be answered here.
            with suppress(Refused, Unavailable):
                is_private = slash_command is None or slash_command.is_private
                await self._acknowledger.defer(interaction, is_private=is_private)
        # None if another process does: for a moment two may hold a shard, when the database's clock was set or a
        # machine was paused.
        if (answer := await answering) is None:
            return
        to, reply = answer
        # A refusal is private even if the command's answer is public; but a deferred response can't be changed any
        # more.
        is_private = slash_command.is_private if is_deferred and slash_command is not None else reply.is_private
        reply = replace(reply, is_private=is_private)
        async with answered(self._app, reply, to) as is_own:
            if is_own:
                await self._respond(interaction, reply, to, is_deferred=is_deferred)

    async def _respond(
        self, interaction: discord.Interaction, reply: CommandReply, to: Destination, *, is_deferred: bool
    ) -> None:
        try:
            (first, files), *others = await to_bodies(self._app, reply, to.asker)
            writer = ResponseWriter(self._rest, interaction.token, is_private=reply.is_private)
            if is_deferred:
                await insist(partial(writer.write, first, "command-0", files), try_seconds=UPLOAD_SECONDS)
            else:
                rows = first.get("components", ())
                await self._acknowledger.respond(interaction, first["content"], is_private=reply.is_private, rows=rows)
            for index, (body, files) in enumerate(others, start=1):
                await writer.write(body, f"command-{index}", files)
        except (Refused, Unavailable) as error:
            await keep(self._app, to, reply, error=error)

    async def _ask(
        self,
        interaction: discord.Interaction,
        question: str,
        *,
        files: tuple[Attachment, ...] = (),
        earlier: tuple[QuotedMessage, ...] = (),
        is_deferred_in_private: bool = False,
    ) -> None:
        reply_to = f"{WHISPER if is_deferred_in_private else INTERACTION}:{interaction.token}"
        adapter = self._rest.bot.adapter
        message = from_interaction(interaction, adapter, question, reply_to=reply_to, files=files, earlier=earlier)
        defer = partial(self._acknowledger.defer, interaction, is_private=False)
        await store(self._app.inbox, message, None if is_deferred_in_private else defer)

    async def _on_form(self, interaction: discord.Interaction, payload: Any, me: int) -> None:
        if (form_id := find_form_id(str(payload.get("custom_id", "")))) is not None:
            await self._forms.on_submit(interaction, payload, form_id)
            return
        prefix, _, target_id = str(payload.get("custom_id", "")).partition(":")
        if prefix == CREDENTIAL_PREFIX:
            await self._acknowledger.defer(interaction, is_private=True)
            sender, value = to_sender(interaction.user), text_of(payload)
            confirmation = await commands.keep_credential(self._app, sender, target_id, value=value)
            writer = ResponseWriter(self._rest, interaction.token, is_private=True)
            body = {"content": confirmation, "allowed_mentions": {"parse": []}}
            await insist(partial(writer.write, body, "credential-0"))
        if prefix != FORM_PREFIX:
            return
        about = await self._list_messages(interaction, str(int(target_id) - 1), me, most=1)
        if not about:
            raise Unreadable
        await self._ask(interaction, text_of(payload), earlier=about)

    async def _list_messages(
        self, interaction: discord.Interaction, after: str, me: int, *, most: int
    ) -> tuple[QuotedMessage, ...]:
        channel = interaction.channel
        if not isinstance(channel, discord.abc.Messageable):
            return ()

        async def read() -> list[discord.Message]:
            return [message async for message in channel.history(limit=most, after=discord.Object(int(after)))]

        try:
            messages = await insist(read)
        except Refused:
            return ()
        return tuple(to_quoted_message(message, me) for message in messages if message.content or message.attachments)
