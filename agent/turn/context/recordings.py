"""Recordings among the attachments of a message: transcribed before the turn, and kept in the journal as its text."""

import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from agent.journal.steps import Step, TurnKey
from agent.llm.media_requests import TranscriptionRequest
from agent.memory.recordings import heading_of
from agent.prompts import prompts
from shared.db.database import Database
from shared.db.statements import load_statements
from shared.errors import NotFound, ToolError, Unavailable
from shared.files.recordings import count_speech, measure
from shared.files.storage import FilesOfUser
from shared.log import get_logger
from shared.messages import Attachment
from shared.settings import Settings
from shared.text import clean, count_tokens

# Containers of video that platforms record voices in.
MIME_TYPES = re.compile(r"audio/|video/(?:mp4|webm)$")
MAX_TRANSCRIPT_CHARS = 40_000
# Of a recording whose kind nobody here can read: 32 kbit/s, the least that people's programs record speech with.
SPEECH_BYTES_A_SECOND = 4000

log = get_logger()

statements = load_statements(__file__)


class Recording(Struct, frozen=True):
    """A stored recording of a turn; `attachment` is what the platform said of it."""

    file_id: int
    filename: str
    size_bytes: int
    attachment: Attachment

    @property
    def heading(self) -> str:
        """Return the line above its transcript in the message."""
        return heading_of(self.file_id, self.filename, is_own=self.attachment.voice_seconds is not None)


class Unheard(Struct, frozen=True):
    """A recording that was not transcribed, and why."""

    name: str
    reason: str


class Listener(Struct, frozen=True):
    """Transcribes the recordings of one turn; `transcribe` makes one model call on the person's budget."""

    database: Database
    files: FilesOfUser
    settings: Settings
    transcribe: Callable[[TranscriptionRequest], Awaitable[str]]

    async def find(self, key: TurnKey, attachments: Sequence[Attachment], message: Step) -> list[Recording]:
        """Return the turn's stored recordings that the message has no transcript of yet.

        Without a model for transcription, these are only what was spoken to the agent.
        """
        has_model = self.settings.voice_transcription_model is not None
        if not has_model and all(attachment.voice_seconds is None for attachment in attachments):
            return []
        parameters = {"turn_id": key.id, "count": len(attachments)}
        async with self.database.statement() as session:
            rows = (await session.execute(statements.list_files_of_turn, parameters)).all()
        recordings = []
        for row, attachment in zip(rows, attachments, strict=False):
            is_spoken, types = attachment.voice_seconds is not None, (row.mime_type, attachment.mime_type)
            is_audio = any(mime_type.startswith("audio/") for mime_type in types)
            is_wanted = (is_spoken or (has_model and is_audio)) and MIME_TYPES.match(row.mime_type)
            recording = Recording(row.id, row.filename, row.size_bytes, attachment=attachment)
            if row.status == "stored" and is_wanted and recording.heading not in message.content:
                recordings.append(recording)
        return recordings

    async def listen(self, key: TurnKey, message: Step, recordings: Sequence[Recording]) -> tuple[Step, list[Unheard]]:
        """Transcribe recordings; return the message with the transcripts, as it is journaled now, and what failed."""
        unheard: list[Unheard] = []
        for recording in recordings:
            try:
                transcript = await self._transcribe(recording)
            except (ToolError, Unavailable) as error:
                log.warning("recording_not_transcribed", file=recording.file_id, cause=str(error))
                unheard.append(Unheard(recording.filename, str(error).rstrip(".")))
            else:
                addition = f"{recording.heading}\n{transcript}"
                content = f"{message.content}\n\n{addition}".strip()
                tokens = count_tokens(content)
                parameters = {
                    "turn_id": key.id,
                    "attempt": key.attempt,
                    "before": clean(message.content),
                    "content": content,
                    "tokens": tokens,
                }
                async with self.database.transaction() as session:
                    await session.execute(statements.add_transcripts, parameters)
                message = replace(message, content=content, token_count=tokens)
        return message, unheard

    async def _transcribe(self, recording: Recording) -> str:
        model, settings = self.settings.voice_transcription_model, self.settings
        if model is None:
            raise ToolError(prompts().voice.not_configured)
        if recording.size_bytes > settings.voice_max_mb * 1024 * 1024:
            raise ToolError(prompts().voice.too_large.format(most=settings.voice_max_mb))
        with suppress(NotFound):
            _, content = await self.files.read(recording.file_id)
            seconds = await measure(self.files, content)
            if seconds is None:
                if (stated := recording.attachment.voice_seconds) is None:
                    raise ToolError(prompts().voice.no_length)
                # What the platform says of it is the sender's word.
                seconds = max(stated, len(content) / SPEECH_BYTES_A_SECOND)
            if seconds > settings.voice_max_minutes * 60:
                raise ToolError(prompts().voice.too_long.format(most=settings.voice_max_minutes))
            tokens = count_speech(settings, seconds)
            request = TranscriptionRequest(model, recording.filename, content, seconds=seconds, tokens=tokens)
            return (await self.transcribe(request))[:MAX_TRANSCRIPT_CHARS] or prompts().voice.nothing_said
        raise ToolError(prompts().turn.file_missing)


def with_unheard(content: str, unheard: Sequence[Unheard]) -> str:
    """Append to the message, for the model, which recordings could not be transcribed and why."""
    lines = [prompts().voice.unheard.format(name=recording.name, reason=recording.reason) for recording in unheard]
    return "\n\n".join([content, *lines]).strip()


def with_unheard_notice(answer: str, unheard: Sequence[Unheard]) -> str:
    """Append to an answer, for the person, which recordings could not be transcribed and why."""
    lines = [
        prompts().voice.unheard_notice.format(name=recording.name, reason=recording.reason) for recording in unheard
    ]
    return "\n\n".join([answer, *lines]).strip()
