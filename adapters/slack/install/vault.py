"""Encryption of tokens at rest, bound to their workspace."""

from collections.abc import Sequence

from shared.credentials import vault
from shared.errors import Unavailable

PURPOSE = b"parley slack tokens"


class TokenUnreadable(Unavailable):
    """The token of the Slack workspace {team} was encrypted with another SECRET_KEY; install the app there again."""

    code = "token_unreadable"


class Vault(vault.Vault):
    """The vault of the workspaces' tokens."""

    def __init__(self, secret_keys: Sequence[str]) -> None:
        super().__init__(secret_keys, PURPOSE)

    def decrypt(self, owner: str, encrypted: str) -> str:
        """Return the token; raises `TokenUnreadable` if no key fits, or it belongs to another workspace."""
        try:
            return super().decrypt(owner, encrypted)
        except vault.Undecryptable:
            raise TokenUnreadable(team=owner) from None
