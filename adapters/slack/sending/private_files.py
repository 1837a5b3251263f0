"""Files that only one person gets: Slack shows none in a private answer in a channel, so they are sent directly."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from adapters.chat.parts import collect, links_to
from adapters.slack.sending.reply import MOST_FILE_BYTES
from adapters.slack.transport.api import Refused, Web
from agent.commands import CommandReply
from shared.errors import Unavailable
from shared.log import get_logger
from shared.messages import ReplyFile

if TYPE_CHECKING:
    from agent.app import App

SENT = "The file is in our direct messages."

log = get_logger()


async def send_privately(app: "App", web: Web, account: str, reply: CommandReply) -> CommandReply:
    """Send the files of a reply to a person; return the reply with a text that says so, or links to those that stay."""
    if not reply.files:
        return reply
    return replace(reply, text=f"{reply.text}\n{await _send(app, web, account, files=reply.files)}", files=())


async def _send(app: "App", web: Web, account: str, files: Sequence[ReplyFile]) -> str:
    uploads, others = await collect(app, files, MOST_FILE_BYTES, allows_empty=False)
    items = [{"content": upload.content, "filename": upload.filename, "title": upload.filename} for upload in uploads]
    try:
        if items:
            await web.call("files.upload.v2", file_uploads=items, channel=await web.open_direct(account))
    except (Refused, Unavailable) as error:
        log.warning("private_file_not_sent", cause=str(error))
        return "\n".join(links_to(files))
    return "\n".join([*([SENT] if items else []), *links_to(others)])
