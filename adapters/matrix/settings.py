"""The settings of Matrix, read from `MATRIX_TOKEN` and so on."""

from dataclasses import dataclass
from typing import ClassVar

from pydantic import SecretStr

from adapters.settings import PlatformSettings


@dataclass(frozen=True)
class MatrixSettings(PlatformSettings):
    """The settings of one account."""

    has_open_threads: ClassVar[bool] = True
    needed_fields: ClassVar[tuple[str, ...]] = ("homeserver", "user", "token")
    origin_fields: ClassVar[tuple[str, ...]] = ("homeserver",)

    homeserver: str | None = None
    """The address of the homeserver, for instance `https://matrix.example.org`."""
    user: str | None = None
    """The account, as `@parley:example.org`."""
    token: SecretStr | None = None
    """The account's access token; `parley setup` makes one of its password."""
    invites: str = "admins"
    """Whose invitations are accepted: `admins`, `all`, or accounts and `*:server`, separated by commas."""
