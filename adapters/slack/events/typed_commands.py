"""Commands typed as a message, like `@Parley /stop`: Slack has no slash commands in threads."""

from functools import partial
from typing import TYPE_CHECKING

from adapters.chat.buttons import buttons_of
from adapters.chat.intake import answer_typed
from adapters.slack.sending.buttons import to_rows
from adapters.slack.sending.private_files import send_privately
from adapters.slack.sending.render import render, to_blocks, to_notice
from adapters.slack.sending.sent import command_metadata
from adapters.slack.transport.api import Json, Web
from agent.commands import CommandReply
from shared.messages import IncomingMessage

if TYPE_CHECKING:
    from agent.app import App


async def answer(app: "App", web: Web, message: IncomingMessage) -> bool:
    """Answer a typed command; a private answer is visible only to the person."""

    async def prepare(reply: CommandReply) -> CommandReply:
        return await send_privately(app, web, message.sender.platform_user_id, reply=reply)

    return await answer_typed(app, message, partial(_post, app, web, message), prepare=prepare)


async def _post(app: "App", web: Web, message: IncomingMessage, reply: CommandReply) -> None:
    place, account = message.place, message.sender.platform_user_id
    method, where = "chat.postMessage", Json(channel=place.channel)
    if place.is_direct or message.platform_message_id != place.thread:
        where["thread_ts"] = place.thread
    if reply.is_private:
        method, where["user"] = "chat.postEphemeral", account.rpartition(":")[2]
    parts = render(reply.text).parts
    rows = to_rows(buttons_of(reply, account, app.clock.now()))
    for index, part in enumerate(parts):
        blocks = [*to_blocks(part), *(rows if part is parts[-1] else ())]
        if not reply.is_private:
            where["metadata"] = command_metadata(message.platform_message_id, index)
        await web.call(method, **where, text=to_notice(part), blocks=blocks)
