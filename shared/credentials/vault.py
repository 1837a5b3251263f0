"""Encryption at rest with `SECRET_KEY`, bound to what a value belongs to."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.fernet import Fernet


class Undecryptable(Exception):
    """No key decrypts the value, or it belongs to another owner."""


class Vault:
    """Encrypts with the first key; decrypts with any of them. Vaults with different purposes have different keys."""

    def __init__(self, secret_keys: Sequence[str], purpose: bytes) -> None:
        self._secret_keys, self._purpose = secret_keys, purpose
        self.has_older_keys = len(secret_keys) > 1

    @cached_property
    def _fernets(self) -> "list[Fernet]":
        # Imported here: it takes 7 MB, and few processes encrypt.
        from cryptography.fernet import Fernet
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        fernets = []
        for key in self._secret_keys:
            # A derived key, separate from those that sign cookies and links.
            derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=self._purpose).derive(key.encode())
            fernets.append(Fernet(urlsafe_b64encode(derived)))
        return fernets

    def encrypt(self, owner: str, value: str) -> str:
        """Return the encrypted value; it can be decrypted for this owner only."""
        return self._fernets[0].encrypt(json.dumps([owner, value]).encode()).decode()

    def decrypt(self, owner: str, encrypted: str) -> str:
        """Return the value; raises `Undecryptable`."""
        from cryptography.fernet import InvalidToken, MultiFernet

        try:
            token_owner, value = json.loads(MultiFernet(self._fernets).decrypt(encrypted.encode()))
        except InvalidToken:
            raise Undecryptable from None
        if token_owner != owner:
            raise Undecryptable
        return str(value)

    def is_current(self, encrypted: str) -> bool:
        """Return whether the value was encrypted with the first key."""
        from cryptography.fernet import InvalidToken

        try:
            self._fernets[0].decrypt(encrypted.encode())
        except InvalidToken:
            return False
        return True
