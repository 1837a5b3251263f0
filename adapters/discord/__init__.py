"""Discord: one gateway process listens, every worker sends by REST."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adapters.discord.platform import DiscordPlatform
    from shared.settings import Settings


def build(settings: "Settings") -> "DiscordPlatform | None":
    """Return the platform, None when there is no token; the library is imported only then."""
    if settings.discord_token is None:
        return None
    from adapters.discord.platform import DiscordPlatform

    return DiscordPlatform(settings)
