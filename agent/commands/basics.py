"""The commands `/help` and `/quit`."""

from agent.commands.base import Request, command
from agent.commands.registry import find_command, list_commands, unknown_command


@command("/help [COMMAND]")
async def explain_commands(request: Request) -> str:
    """List the commands, or explain one."""
    platform = request.place.platform
    if not request.words:
        commands = [command for command in list_commands(platform) if command.requires <= request.user.permission]
        return "\n".join(
            ["Write to me in plain words, or use:", *(f"{command.usage} - {command.summary}" for command in commands)]
        )
    name = request.words[0].removeprefix("/").lower()
    topic = find_command(platform, name)
    return unknown_command(platform, name) if topic is None else f"{topic.usage} - {topic.summary}"


@command("/quit", only_on="terminal", quits=True)
async def quit_chat(request: Request) -> str:
    """Leave the chat; the conversation is kept."""
    return "Goodbye."
