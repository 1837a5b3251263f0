"""The settings of Matrix, read from `MATRIX_TOKEN` and so on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from pydantic import SecretStr

from adapters.settings import PlatformSettings


@dataclass(frozen=True)
class MatrixSettings(PlatformSettings):
    """The settings of one account."""

    has_open_threads: ClassVar[bool] = True

    homeserver: str | None = None
    """The address of the homeserver, for instance `https://matrix.example.org`."""
    user: str | None = None
    """The account that the token has to be of, as `@parley:example.org`; unset: whatever account it is of."""
    token: SecretStr | None = None
    """The account's access token; `parley matrix login` makes one."""
    invites: str = "admins"
    """Whose invitations are accepted: `admins`, `all`, or accounts and `*:server`, separated by commas."""

    @property
    def missing(self) -> str | None:
        """Return the variables of the homeserver and the token as long as one is not set."""
        is_whole = self.homeserver is not None and self.token is not None
        return None if is_whole else "MATRIX_HOMESERVER and MATRIX_TOKEN, see docs/matrix.md"

    @property
    def origins(self) -> Mapping[str, str]:
        """Return the homeserver, from which attachments are fetched."""
        return {"MATRIX_HOMESERVER": self.homeserver} if self.homeserver else {}
