"""What people ask for beside a turn: slash commands, panels, dry runs, schedules, requests, their own records."""

import re

from agent.app import App
from agent.commands.admin import find_form
from agent.commands.base import Command, CommandChoice, CommandReply, command, open_request
from agent.commands.credentials import find_credential_form, keep_credential
from agent.commands.registry import find_command, list_commands, name_commands, unknown_command
from shared.errors import ParleyError
from shared.messages import Place, PlatformContext, Sender
from shared.text import cut, to_command_line

__all__ = [
    "Command",
    "CommandChoice",
    "CommandReply",
    "answer",
    "command",
    "find_command",
    "find_credential_form",
    "find_form",
    "keep_credential",
    "list_commands",
    "match_command",
    "name_commands",
]

# A path such as /etc/hosts contains another slash and is not a command.
COMMAND_LINE = re.compile(r"/([a-z][a-z_-]*)(?:\s+(.*))?", re.IGNORECASE | re.DOTALL)
MAX_CHARS = 4000


def match_command(text: str) -> re.Match[str] | None:
    """Return the name and the argument of the command that a text may be; None for any other text."""
    line = to_command_line(text)
    return None if line is None else COMMAND_LINE.fullmatch(line.strip())


async def answer(
    app: App,
    sender: Sender,
    place: Place,
    text: str,
    platform_context: PlatformContext | None = None,
    adapter: str | None = None,
) -> CommandReply | None:
    """Run the command in the text and return its reply; None if the text is not a command, but for the agent.

    `adapter` is the one that it came by, None for that of the place's platform.
    """
    match = match_command(text)
    if match is None:
        return None
    name = match[1].lower()
    command = find_command(place.platform, name)
    if command is None:
        return CommandReply(unknown_command(place.platform, name), is_private=True)
    async with app.database.transaction() as session:
        context = platform_context or PlatformContext()
        request = await open_request(
            session, app, sender, place=place, context=context, adapter=adapter or place.platform
        )
    argument = (match[2] or "").strip()
    try:
        reply = await command.run(request, argument)
    except ParleyError as error:
        return CommandReply(str(error), is_private=True)
    if isinstance(reply, str):
        return CommandReply(cut(reply, MAX_CHARS), command.is_private, command.quits)
    content, number = cut(reply.text, MAX_CHARS), reply.confirmation
    if number is not None:
        content += f"\n\nTo do it, write /confirm {number}; otherwise /confirm no."
    # What deletes or contains a person's data is nobody else's concern, whatever the command says.
    return CommandReply(content, True, confirmation=number, files=reply.files, is_secret=reply.is_secret)
