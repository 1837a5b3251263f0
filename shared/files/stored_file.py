"""What is said of a file that is stored: its row as tools and people see it, where its content is, and links to it."""

import hashlib
import hmac
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode

from msgspec import Struct

from shared.clock import Clock, SystemClock
from shared.messages import Author
from shared.settings import Settings

if TYPE_CHECKING:
    from shared.models.files import FileRecord

LINK_SECONDS = 24 * 3600


class StoredFile(Struct, frozen=True):
    """A file of a user, with a link that expires; `author` is a stranger when one may have chosen its name."""

    file_id: int
    filename: str
    mime_type: str
    size_bytes: int
    url: str
    author: Author = "person"

    @property
    def note(self) -> dict[str, bool]:
        """Return what a tool's result says beside the name: `untrusted` when a stranger may have chosen it."""
        return {"untrusted": True} if self.author == "stranger" else {}

    @property
    def label(self) -> str:
        """Return what an error calls it: nothing marks that text, so no name of a stranger stands in it."""
        return to_label(self.file_id, self.filename, self.author)


class StoredContent(NamedTuple):
    """Where a file's content is, and the checksum that it had when it was stored; None: nobody knows it."""

    key: str
    filename: str
    sha256: str | None


def to_content(record: "FileRecord") -> StoredContent:
    """Return where a file's content is, with its checksum."""
    label = to_label(record.id, record.filename, to_author(record.author))
    return StoredContent(record.minio_key, label, record.sha256)


def to_author(author: str) -> Author:
    """Return who may have chosen a file's name, as its row says it."""
    return "person" if author == "person" else "stranger"


def to_label(file_id: int, filename: str, author: Author) -> str:
    """Return what an error calls a file: its name, or its number when a stranger may have chosen that."""
    return filename if author == "person" else f"with file_id {file_id}"


class FileLinks:
    """Signs links to the files of this installation, and checks them."""

    def __init__(self, base_url: str, secret_keys: tuple[str, ...], clock: Clock | None = None) -> None:
        """Sign with the first key; a link that another one has signed is good, too."""
        self.base_url = base_url.rstrip("/")
        # Derived keys, so that a signature made for another purpose is not valid for a link.
        self._keys = tuple(hmac.digest(key.encode(), b"parley file link", "sha256") for key in secret_keys)
        self._clock = clock or SystemClock()

    def sign(self, file_id: int) -> str:
        """Return a link to a file that is valid for a day."""
        until = int(self._clock.now().timestamp()) + LINK_SECONDS
        query = urlencode({"until": until, "signature": _signature(self._keys[0], file_id, until)})
        return f"{self.base_url}/files/{file_id}?{query}"

    def check(self, file_id: int, query: Mapping[str, str]) -> bool:
        """Tell whether these query parameters are a valid signature for this file that has not expired."""
        until, signature = query.get("until", ""), query.get("signature", "")
        if not (until.isascii() and until.isdecimal() and len(until) <= 12 and signature.isascii()):
            return False
        if int(until) <= self._clock.now().timestamp():
            return False
        return any(hmac.compare_digest(_signature(key, file_id, int(until)), signature) for key in self._keys)


def to_base_url(settings: Settings) -> str:
    """Return the address that all links of this installation begin with."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return settings.public_url or f"http://{host}:{settings.port}"


def _signature(key: bytes, file_id: int, until: int) -> str:
    return hmac.new(key, f"{file_id}.{until}".encode(), hashlib.sha256).hexdigest()
