"""Transcripts of recordings, which stand below the message of a turn, under the headings that `context` gives them."""

from collections.abc import Iterable

from msgspec import Struct

from agent.prompts import prompts
from shared.memory.tokenizer import MAX_CONTENT_CHARS, split_text


class Transcript(Struct, frozen=True):
    """What is said in a file of a turn; `is_own`: the writer spoke it, otherwise it may be somebody else's speech."""

    file_id: int
    heading: str
    text: str
    is_own: bool

    @property
    def block(self) -> str:
        """Return it as it stands in the message."""
        return f"{self.heading}\n{self.text}"

    @property
    def has_speech(self) -> bool:
        """Tell whether anything was heard in the recording."""
        return self.text != prompts().voice.nothing_said

    @property
    def parts(self) -> list[str]:
        """Return it as memories hold it; what may be somebody else's speech has the heading in each part."""
        if self.is_own:
            return [self.text]
        most = max(MAX_CONTENT_CHARS - len(self.heading) - 1, MAX_CONTENT_CHARS // 2)
        return [f"{self.heading}\n{part}" for part in split_text(self.text, most)]


def heading_of(file_id: int, filename: str, *, is_own: bool) -> str:
    """Return the line above the transcript of this file."""
    texts = prompts().voice
    return f"{texts.spoken if is_own else texts.recording} {filename} (file_id {file_id}):]"


def list_transcripts(content: str, files: Iterable[tuple[int, str]]) -> list[Transcript]:
    """Return the transcripts of these files (id and name) in a message, in its order.

    They stand at its end: whoever writes such a heading into a message writes it before the real one.
    """
    headings = []
    for file_id, filename in files:
        for is_own in (True, False):
            heading = heading_of(file_id, filename, is_own=is_own)
            at = f"\n{content}".rfind(f"\n{heading}\n")
            if at >= 0:
                headings.append((at, file_id, heading, is_own))
    headings.sort()
    ends = [*(at for at, *_ in headings), len(content)][1:]
    return [
        Transcript(file_id, heading, content[at + len(heading) + 1 : end].strip(), is_own=is_own)
        for (at, file_id, heading, is_own), end in zip(headings, ends, strict=True)
    ]
