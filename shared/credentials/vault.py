"""Encryption at rest with `SECRET_KEY`, bound to what a value belongs to."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Sequence

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF


class Undecryptable(Exception):
    """No key decrypts the value, or it belongs to another owner."""


class Vault:
    """Encrypts with the first key; decrypts with any of them. Vaults with different purposes have different keys."""

    def __init__(self, secret_keys: Sequence[str], purpose: bytes) -> None:
        fernets = []
        for key in secret_keys:
            # A derived key, separate from those that sign cookies and links.
            derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose).derive(key.encode())
            fernets.append(Fernet(urlsafe_b64encode(derived)))
        self._newest, self._all = fernets[0], MultiFernet(fernets)
        self.has_older_keys = len(fernets) > 1

    def encrypt(self, owner: str, value: str) -> str:
        """Return the encrypted value; it can be decrypted for this owner only."""
        return self._newest.encrypt(json.dumps([owner, value]).encode()).decode()

    def decrypt(self, owner: str, encrypted: str) -> str:
        """Return the value; raises `Undecryptable`."""
        try:
            token_owner, value = json.loads(self._all.decrypt(encrypted.encode()))
        except InvalidToken:
            raise Undecryptable from None
        if token_owner != owner:
            raise Undecryptable
        return str(value)

    def is_current(self, encrypted: str) -> bool:
        """Return whether the value was encrypted with the first key."""
        try:
            self._newest.decrypt(encrypted.encode())
        except InvalidToken:
            return False
        return True
