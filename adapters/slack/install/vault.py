"""Encryption of tokens at rest with `SECRET_KEY`, bound to their workspace."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Sequence

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from shared.errors import Unavailable

PURPOSE = b"parley slack tokens"


class TokenUnreadable(Unavailable):
    """The token of the Slack workspace {team} was encrypted with another SECRET_KEY; install the app there again."""

    code = "token_unreadable"


class Vault:
    """Encrypts with the first key; decrypts with any of them."""

    def __init__(self, secret_keys: Sequence[str]) -> None:
        self._keys = MultiFernet([Fernet(_derive(key)) for key in secret_keys])

    def encrypt(self, team_id: str, token: str) -> str:
        """Return the encrypted token; it can be decrypted for this workspace only."""
        return self._keys.encrypt(json.dumps([team_id, token]).encode()).decode()

    def decrypt(self, team_id: str, encrypted: str) -> str:
        """Return the token; raises `TokenUnreadable` if no key fits, or it belongs to another workspace."""
        try:
            owner, token = json.loads(self._keys.decrypt(encrypted.encode()))
        except InvalidToken:
            raise TokenUnreadable(team=team_id) from None
        if owner != team_id:
            raise TokenUnreadable(team=team_id)
        return str(token)


def _derive(key: str) -> bytes:
    # A derived key, separate from those that sign cookies and links.
    derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=PURPOSE).derive(key.encode())
    return urlsafe_b64encode(derived)
