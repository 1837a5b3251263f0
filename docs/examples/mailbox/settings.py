"""The settings of the mailbox, read as `MAILBOX_FOLDER` and `MAILBOX_LIMIT`."""

from dataclasses import dataclass
from pathlib import Path

from adapters.settings import PlatformSettings


@dataclass(frozen=True)
class MailboxSettings(PlatformSettings):
    """Where the files are, and how many characters one of them holds."""

    folder: Path | None = None
    limit: int = 500

    @property
    def missing(self) -> str | None:
        """Return what has to be set before the mailbox can be used."""
        return "MAILBOX_FOLDER to a folder for messages" if self.folder is None else None
