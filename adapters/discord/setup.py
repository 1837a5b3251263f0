"""What `parley setup` asks for Discord."""

from collections.abc import Mapping

from shared.settings import Settings

QUESTIONS: Mapping[str, str] = {"DISCORD_TOKEN": "the bot's token"}


def introduce(settings: Settings) -> str:  # the signature is that of every platform
    """Return what to do before the questions."""
    return (
        "Discord: make an application at https://discord.com/developers/applications, and on its page Bot switch on"
        " Message Content Intent; Reset Token shows the token."
    )
