"""Commands typed as a message, like `@Parley /stop`: Slack has no slash commands in threads."""

from dataclasses import replace
from typing import TYPE_CHECKING

from adapters.chat.command_replies import buttons_of, keep
from adapters.slack.sending.buttons import to_rows
from adapters.slack.sending.private_files import send_privately
from adapters.slack.sending.render import render, to_blocks, to_notice
from adapters.slack.sending.sent import command_metadata
from adapters.slack.transport.api import Json, Refused, Web
from agent import commands
from agent.queue.inbox import accept_answered
from shared.errors import Unavailable
from shared.log import get_logger
from shared.messages import IncomingMessage
from shared.text import clean

if TYPE_CHECKING:
    from agent.app import App

log = get_logger()


class TypedCommands:
    """Answers typed commands immediately; a private answer is visible only to the person."""

    def __init__(self, app: "App") -> None:
        self._app = app

    async def answer(self, message: IncomingMessage, web: Web) -> bool:
        """Answer a command once, however many events contain it; return False if the message is not a command."""
        if commands.COMMAND_LINE.fullmatch(clean(message.content).strip()) is None:
            return False
        if not await accept_answered(self._app.database, message):
            return True
        reply = await commands.answer(
            self._app, message.sender, message.place, text=message.content, platform_context=message.platform_context
        )
        if reply is None:
            return True
        place = message.place
        where: Json = {"channel": place.channel}
        if place.is_direct or message.platform_message_id != place.thread:
            where["thread_ts"] = place.thread
        method = "chat.postMessage"
        is_aside = reply.is_private and not place.is_direct
        if is_aside:
            method, where["user"] = "chat.postEphemeral", message.sender.platform_user_id.rpartition(":")[2]
        account = message.sender.platform_user_id
        note = await send_privately(self._app, web, account, files=reply.files)
        reply = replace(reply, text=f"{reply.text}\n{note}".rstrip(), files=())
        parts = render(reply.text).parts
        rows = to_rows(buttons_of(reply, account, self._app.clock.now()))
        try:
            for index, part in enumerate(parts):
                blocks = [*to_blocks(part), *(rows if part is parts[-1] else ())]
                if not is_aside:
                    where["metadata"] = command_metadata(message.platform_message_id, index)
                await web.call(method, **where, text=to_notice(part), blocks=blocks)
        except Refused as error:
            log.warning("command_not_answered", cause=str(error))
        except Unavailable as error:
            # A direct message can be looked up, whatever somebody else may see.
            reply = replace(reply, is_private=is_aside)
            await keep(
                self._app, place, asker=account, reply=reply, message_id=message.platform_message_id, error=error
            )
        return True
