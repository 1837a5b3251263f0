"""What is said of a file that is stored: its row as tools and people see it, and where its content is."""

from dataclasses import dataclass
from typing import NamedTuple

from shared.messages import Author
from shared.models.files import FileRecord


@dataclass(frozen=True, slots=True)
class StoredFile:
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


def to_content(record: FileRecord) -> StoredContent:
    """Return where a file's content is, with its checksum."""
    label = to_label(record.id, record.filename, to_author(record.author))
    return StoredContent(record.minio_key, label, record.sha256)


def to_author(author: str) -> Author:
    """Return who may have chosen a file's name, as its row says it."""
    return "person" if author == "person" else "stranger"


def to_label(file_id: int, filename: str, author: Author) -> str:
    """Return what an error calls a file: its name, or its number when a stranger may have chosen that."""
    return filename if author == "person" else f"with file_id {file_id}"
