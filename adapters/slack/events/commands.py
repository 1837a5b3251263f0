"""Answers to commands: typed as a message, for Slack has no slash commands in threads; and their files.

Slack shows no file in a private answer in a channel, so files are sent directly.
"""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from adapters.base import key_of
from adapters.chat.buttons import buttons_below
from adapters.chat.intake import answer_typed
from adapters.chat.parts import collect, links_to
from adapters.slack.sending.buttons import to_rows
from adapters.slack.sending.render import render, to_blocks, to_notice
from adapters.slack.sending.reply import MOST_FILE_BYTES, send
from adapters.slack.sending.shown import ShownMessages
from adapters.slack.transport.api import Json, Refused, Web
from agent.commands import CommandReply, match_command
from agent.queue.outbox import DIRECT, Reply
from shared.errors import Unavailable
from shared.log import get_logger
from shared.messages import IncomingMessage

if TYPE_CHECKING:
    from adapters.cells.routes import Cells
    from agent.app import App


SENT = "The file is in our direct messages."

log = get_logger()


async def send_privately(app: "App", web: Web, account: str, reply: CommandReply) -> CommandReply:
    """Send the files of a reply to a person; return the reply with a text that says so, or links to those that stay."""
    if not reply.files:
        return reply
    uploads, others = await collect(app, reply.files, MOST_FILE_BYTES, allows_empty=False)
    items = [{"content": upload.content, "filename": upload.filename, "title": upload.filename} for upload in uploads]
    lines = [*([SENT] if items else []), *links_to(others)]
    try:
        if items:
            await web.call("files.upload.v2", file_uploads=items, channel=await web.open_direct(account))
    except (Refused, Unavailable) as error:
        log.warning("private_file_not_sent", cause=str(error))
        lines = links_to(reply.files)
    return replace(reply, text="\n".join([reply.text, *lines]), files=())


async def answer_command(app: "App", web: Web, message: IncomingMessage, *, cells: "Cells | None" = None) -> bool:
    """Answer a typed command; a private answer is visible only to the person.

    It waits while its workspace is on the way to another cell. Raises `ServerMoved` where that has left this one.
    """
    if cells is not None and match_command(message.content) is not None:
        await cells.check(message.place, app, waits=True)
    account, place = message.sender.platform_user_id, message.place
    # The command is not the beginning of a thread.
    is_root = not place.is_direct and message.platform_message_id == place.thread
    where = replace(place, thread=None) if is_root else place

    async def prepare(reply: CommandReply) -> CommandReply:
        return await send_privately(app, web, account, reply=reply)

    async def post(reply: Reply) -> None:
        rows, key = to_rows(buttons_below(reply, app.clock.now())), key_of(app.secrets, reply)
        if not (reply.reply_to or "").startswith(DIRECT):
            reply = replace(reply, place=where)
            await send(app, web, reply, key=key, rows=rows, live_messages=ShownMessages())
            return
        person: Json = {"channel": where.channel, "thread_ts": where.thread, "user": account.rpartition(":")[2]}
        parts = render(reply.content).parts
        for part in parts:
            blocks = [*to_blocks(part), *(rows if part is parts[-1] else ())]
            await web.call("chat.postEphemeral", **person, text=to_notice(part), blocks=blocks)

    return await answer_typed(app, message, post, prepare=prepare)
