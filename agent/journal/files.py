"""How the text of a message lists its files, for models."""

from collections.abc import Sequence

from msgspec import Struct

from shared.files.filenames import clean_filename
from shared.messages import Attachment

FILES_HEADING = "[Attached files:]"
# Ends the line of a file whose name somebody else has chosen.
FROM_OTHERS = "[forwarded from somebody else]"


class PendingFile(Struct, frozen=True):
    """A recorded file whose content has not been stored yet; `key` is its key in the object storage.

    `has_failed` is True when an earlier attempt at the turn could not store it.
    """

    file_id: int
    key: str
    attachment: Attachment
    has_failed: bool = False


def with_file_lines(content: str, files: Sequence[PendingFile]) -> str:
    """Append one line per file (name, id, size, type) and a hint how to read files to the message text."""
    if not files:
        return content
    # Imported here: a command of the terminal that erases a person starts without the texts.
    from agent.prompts import prompts

    lines = []
    for file in files:
        attachment, size = file.attachment, file.attachment.size_bytes
        if size is None:
            label = ""
        elif size < 1024:
            label = f"{size} bytes, "
        else:
            label = f"{size / 1024:.0f} KB, " if size < 1024**2 else f"{size / 1024**2:.1f} MB, "
        line = f"- {clean_filename(attachment.filename)} (file_id {file.file_id}, {label}{attachment.mime_type})"
        lines.append(f"{line} {FROM_OTHERS}" if attachment.author == "stranger" else line)
    return "\n".join([content, "", FILES_HEADING, *lines, prompts().turn.files_hint]).strip()
