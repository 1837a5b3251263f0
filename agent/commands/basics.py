"""The commands `/help` and `/quit`."""

from agent.commands.base import Request, command
from agent.commands.registry import find_command, list_commands, unknown_command


@command("help")
async def explain_commands(request: Request, command: str = "", *_: str) -> str:
    """List the commands, or explain one."""
    platform = request.place.platform
    if not command:
        commands = [entry for entry in list_commands(platform) if entry.requires <= request.user.permission]
        return "\n".join(
            ["Write to me in plain words, or use:", *(f"{entry.usage} - {entry.summary}" for entry in commands)]
        )
    name = command.removeprefix("/").lower()
    topic = find_command(platform, name)
    return unknown_command(platform, name) if topic is None else topic.explanation


@command("quit", only_on="terminal", quits=True)
async def quit_chat(request: Request, *_: str) -> str:
    """Leave the chat; the conversation is kept."""
    return "Goodbye."
