"""The settings of Discord, read from `DISCORD_TOKEN` and so on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field, SecretStr

from adapters.discord.bots import Bot, list_bots
from adapters.settings import PlatformSettings


@dataclass(frozen=True)
class DiscordSettings(PlatformSettings):
    """The settings of all bots; the addresses are for a proxy or a test."""

    has_cells: ClassVar[bool] = True
    needed_fields: ClassVar[tuple[str, ...]] = ("token",)
    origin_fields: ClassVar[tuple[str, ...]] = ("cdn_base",)

    token: SecretStr | None = None
    """The bot's token; of several bots theirs, with commas between them."""
    api_base: str | None = None
    """Another address of Discord's REST API: a proxy, a test."""
    gateway: str | None = None
    """Another address of Discord's gateway."""
    cdn_base: str | None = None
    """Another address of Discord's files, allowed for attachments."""
    shard_count: Annotated[int, Field(ge=1)] | None = None
    """Number of gateway shards; unset: as many as Discord recommends."""
    shard_ids: str | None = None
    """Shards that this process may listen to: `0-3,7`; unset: all."""
    requests_per_second: Annotated[float, Field(ge=1)] = 40.0
    """REST requests of all processes together; Discord allows a token 50, and large bots more."""
    session_seconds: Annotated[float, Field(ge=0)] = 5.25
    """Seconds between two starts of gateway sessions; less for a gateway proxy."""

    @property
    def bots(self) -> Sequence[Bot]:
        """Return the bots; raises `ConfigurationError` for tokens that are none."""
        return list_bots(self.token.get_secret_value() if self.token else "")

    @property
    def adapters(self) -> Sequence[str]:
        """Return one adapter for each bot."""
        return [bot.adapter for bot in self.bots]
