"""Receipts of erasures: signed with `SECRET_KEY`, so that one that was changed is noticed."""

from typing import Any

from itsdangerous import BadSignature, Serializer

from shared.errors import Refusal
from shared.settings import Secrets

SALT = "parley.erasure"


def sign_receipt(secrets: Secrets, receipt: dict[str, Any]) -> str:
    """Return the receipt as one line of text with its signature."""
    return str(_serializer(secrets).dumps(receipt))


def verify_receipt(secrets: Secrets, signed: str) -> dict[str, Any]:
    """Return the content of a receipt; raises `Refusal` if none of the keys in `SECRET_KEY` has signed it."""
    try:
        receipt: dict[str, Any] = _serializer(secrets).loads(signed.strip())
    # Whoever hands it over chooses its bytes, which may be no text.
    except (BadSignature, UnicodeError):
        raise Refusal("This is no receipt of this installation, or it was changed, or its key is gone.") from None
    return receipt


def _serializer(secrets: Secrets) -> "Serializer[str]":
    return Serializer(secrets.signing_keys, salt=SALT)
