"""The settings of Discord, read as `DISCORD_TOKEN` and so on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, SecretStr

from adapters.base import PlatformSettings


@dataclass(frozen=True)
class DiscordSettings(PlatformSettings):
    """One bot; the addresses are for a proxy or a test."""

    token: SecretStr | None = None
    api_base: str | None = None
    gateway: str | None = None
    cdn_base: str | None = None
    shard_count: Annotated[int, Field(ge=1)] | None = None
    shard_ids: str | None = None

    @property
    def missing(self) -> str | None:
        """Return the token's variable when it is not set."""
        return "DISCORD_TOKEN, see docs/discord.md" if self.token is None else None

    @property
    def origins(self) -> Mapping[str, str]:
        """Return where attachments come from."""
        return {"DISCORD_CDN_BASE": self.cdn_base} if self.cdn_base else {}
