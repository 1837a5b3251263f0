"""The settings of Discord, read from `DISCORD_TOKEN` and so on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, SecretStr

from adapters.settings import PlatformSettings


@dataclass(frozen=True)
class DiscordSettings(PlatformSettings):
    """The settings of one bot; the addresses are for a proxy or a test."""

    token: SecretStr | None = None
    """The bot's token."""
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
    def missing(self) -> str | None:
        """Return the variable of the token if it is not set."""
        return "DISCORD_TOKEN, see docs/discord.md" if self.token is None else None

    @property
    def origins(self) -> Mapping[str, str]:
        """Return the origins from which attachments may be fetched."""
        return {"DISCORD_CDN_BASE": self.cdn_base} if self.cdn_base else {}

    @property
    def has_cells(self) -> bool:
        """Return that each event goes to its server's cell."""
        return True
