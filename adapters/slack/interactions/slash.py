"""The slash command `/parley`: the commands of every platform, and `ask`. Slack doesn't offer it in threads."""

import re
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from msgspec.structs import replace

from adapters.base import key_of
from adapters.chat.buttons import buttons_of
from adapters.chat.undelivered import Destination, answered, keep, run_command, to_reply
from adapters.slack.events.commands import send_privately
from adapters.slack.events.incoming import PLATFORM, to_plain
from adapters.slack.install import COMMAND
from adapters.slack.interactions.actors import Actor
from adapters.slack.interactions.respond import NOT_INSTALLED, in_slack, to_reply_to, url_of
from adapters.slack.sending.buttons import to_rows
from adapters.slack.sending.render import neutralise_mentions, to_blocks, to_notice
from adapters.slack.sending.reply import send
from adapters.slack.sending.shown import ShownMessages
from adapters.slack.transport.api import Json, Refused, Web
from agent import commands
from agent.commands import CommandReply
from shared.db.statements import load_statements
from shared.errors import ParleyError, Unavailable
from shared.log import get_logger
from shared.messages import IncomingMessage, Place

statements = load_statements(__file__)

if TYPE_CHECKING:
    from slack_bolt.async_app import AsyncApp

    from adapters.base import Running
    from adapters.slack.interactions.actors import Actors
    from adapters.slack.interactions.credentials import CredentialForms
    from adapters.slack.interactions.forms import AdminForms
    from adapters.slack.interactions.respond import Responses
    from agent.app import App
    from agent.queue.outbox import Reply

ASK, STOP, HELP = "ask", "stop", "help"
ASK_HOW = "Write `/parley ask` and your question behind it."
ASK_HELP = "/parley ask QUESTION - Ask me something; the answer is for all here."
TO_ASK = "To ask me something: `/parley ask` and the question."
NAME = re.compile(r"[a-z][a-z_-]*", re.IGNORECASE)

ASK_INSTEAD, NOT_HERE = CommandReply(TO_ASK, is_private=True), CommandReply(NOT_INSTALLED, is_private=True)


log = get_logger()


class Slash:
    """Answers the slash command; it is acknowledged within three seconds, an answer may take longer."""

    def __init__(
        self,
        app: "App",
        actors: "Actors",
        responses: "Responses",
        *,
        running: "Running",
        forms: "CredentialForms",
        open_admin_forms: "Callable[[], AdminForms]",
    ) -> None:
        self._app, self._actors, self._responses, self._running = app, actors, responses, running
        self._forms, self._open_admin_forms = forms, open_admin_forms

    async def on_command(self, ack: Any, body: Json) -> None:
        """Run one command."""
        name, rest = [*str(body.get("text") or "").split(None, 1), "", ""][:2]
        if name.lower() != ASK:
            await ack()
            line = f"/{name.removeprefix('/')} {rest}"
            if (form := commands.find_form(line)) is not None:
                self._running.start(self._open_admin_forms().open(body, form), "slack form")
            elif (credential_form := commands.find_credential_form(line)) is not None:
                self._running.start(self._forms.open(body, credential_form), "slack credential form")
            else:
                self._running.start(self._answer(body, name, rest.strip()), "slack command")
            return
        if not (question := rest.strip()):
            await ack(text=ASK_HOW, response_type="ephemeral")
            return
        try:
            actor = await self._find_actor(body)
            if actor is not None:
                # Stored before the acknowledgement, under the trigger's id, so that a repeated command is a duplicate.
                message = await self._to_message(body, actor, to_plain(question, {}))
                await self._app.inbox.accept(replace(message, platform_message_id=to_reply_to(url_of(body))))
        except ParleyError as error:
            log.warning("slack_question_not_stored", cause=str(error))
            await ack(text=to_notice(str(error)), response_type="ephemeral")
            return
        if actor is None:
            await ack(text=NOT_INSTALLED, response_type="ephemeral")
        else:
            # Makes the command visible to the channel.
            await ack(response_type="in_channel")

    async def _find_actor(self, body: Json) -> Actor | None:
        return await self._actors.find_actor(body.get("team_id"), str(body.get("user_id")))

    async def _to_message(self, body: Json, actor: Actor, content: str) -> IncomingMessage:
        return IncomingMessage(
            adapter=PLATFORM,
            sender=actor.sender,
            place=await self._actors.find_place(actor, str(body.get("channel_id"))),
            event_id=f"command:{body.get('trigger_id') or uuid4().hex}",
            content=content,
            sent_at=self._app.clock.now(),
            platform_context=actor.platform_context,
        )

    async def _answer(self, body: Json, name: str, rest: str) -> None:
        url, rows, to, actor, reply = url_of(body), list[Json](), None, None, NOT_HERE
        try:
            actor = await self._find_actor(body)
            if actor is not None:
                arrival, account = await self._to_message(body, actor, ""), actor.sender.platform_user_id
                to = Destination(PLATFORM, arrival.place, account, response=to_reply_to(url))
                line, run = (
                    f"/{name.removeprefix('/') or HELP}",
                    partial(self._run, actor, arrival.place, name, rest=rest),
                )
                answer = await run_command(self._app, arrival, to, line=line, run=run, render=in_slack)
                if answer is None:
                    return
                to, reply = answer
                rows = to_rows(buttons_of(reply, account, self._app.clock.now()))
                reply = await send_privately(self._app, actor.web, account, reply=reply)
        except ParleyError as error:
            log.warning("slack_command_failed", command=name[:40], cause=str(error))
            reply = CommandReply(str(error), is_private=True)
        reply = replace(reply, text=in_slack(reply.text))
        blocks = [*to_blocks(neutralise_mentions(reply.text)), *rows]
        async with nullcontext(True) if to is None else answered(self._app, reply, to) as is_own:
            if not is_own:
                return
            try:
                if to is None or actor is None or reply.is_private:
                    await self._responses.answer(url, to_notice(reply.text), blocks)
                else:
                    await self._post(actor.web, to_reply(to, reply), rows)
            except (Refused, Unavailable) as error:
                if to is not None:
                    await keep(self._app, to, reply, error=error)

    async def _post(self, web: Web, reply: "Reply", rows: list[Json]) -> None:
        """Post a reply for all, by whose key it is found if it is tried again."""
        try:
            key = key_of(self._app.secrets, reply)
            await send(self._app, web, reply, key=key, rows=rows, live_messages=ShownMessages())
        except Refused as error:
            await self._responses.reply(reply, rows, error=error)

    async def _run(self, actor: Actor, place: Place, name: str, *, rest: str) -> CommandReply:
        name = name.removeprefix("/") or HELP
        if not NAME.fullmatch(name):
            return ASK_INSTEAD
        line, hint = f"/{name} {to_plain(rest, {})}".strip(), ""
        if name.lower() == STOP:
            place = await find_running(self._app, actor, place)
        reply = await commands.answer(
            self._app, actor.sender, place, text=line, platform_context=actor.platform_context
        )
        if reply is None:
            return ASK_INSTEAD
        if name.lower() == HELP and not rest:
            hint = f"\n{ASK_HELP}"
        elif commands.find_command(PLATFORM, name.lower()) is None:
            hint = f" {TO_ASK}"
        return replace(reply, text=reply.text + hint)


async def find_running(app: "App", actor: Actor, place: Place) -> Place:
    """Return the place in this channel or its threads where a turn of the person runs, else the channel itself."""
    parameters = {"server": place.server, "channel": place.channel, "account": actor.sender.platform_user_id}
    async with app.database.statement() as session:
        rows = (await session.execute(statements.list_running_threads, parameters)).all()
    return replace(place, thread=rows[0].platform_thread_id) if rows else place


def register(bolt: "AsyncApp", slash: Slash) -> None:
    """Register the listener for the slash command."""
    bolt.command(COMMAND)(slash.on_command)
