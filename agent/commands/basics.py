"""The commands `/help` and `/quit`."""

from agent.commands.base import Request, command
from agent.commands.registry import find_command, list_commands, unknown_command


@command("/help [COMMAND]")
async def explain_commands(request: Request) -> str:
    """List the commands, or explain one."""
    platform = request.place.platform
    if not request.words:
        allowed = [each for each in list_commands(platform) if each.requires <= request.user.permission]
        return "\n".join(
            ["Write to me in plain words, or use:", *(f"{each.usage} - {each.summary}" for each in allowed)]
        )
    name = request.words[0].removeprefix("/").lower()
    found = find_command(platform, name)
    return unknown_command(platform, name) if found is None else f"{found.usage} - {found.summary}"


@command("/quit", only_on="terminal", quits=True)
async def quit_chat(request: Request) -> str:
    """Leave the chat; the conversation is kept."""
    return "Goodbye."
