"""A tool that speaks. Voice messages are transcribed before a turn begins, by the program itself."""

from dataclasses import dataclass
from typing import Any

from shared.errors import ToolError
from shared.files.recordings import count_speech
from shared.messages import Permission
from shared.settings import Settings
from shared.text import clean
from shared.tools import ToolContext, tool

MAX_TEXT_CHARS = 4000
MAX_VOICE_CHARS = 64
SECONDS = 150
# Of English read aloud.
CHARS_A_SECOND = 15
NOT_CONFIGURED = "no model for speech is set: VOICE_SPEECH_MODEL, such as tts-1 or gpt-4o-mini-tts"


@dataclass(frozen=True, slots=True)
class VoiceSettings:
    """Which model speaks; the other settings that begin with VOICE_ are the program's own."""

    speech_model: str | None = None
    """The model that speaks, as litellm names it: `tts-1`, `gpt-4o-mini-tts`; unset: `speak` is off."""
    speech_voice: str = "alloy"
    """The voice, unless the model is asked for another one."""


def needs_model(settings: Settings) -> str | None:
    """Return why nothing can be spoken; None when a model is configured."""
    return None if settings.of_module(VoiceSettings, "voice").speech_model else NOT_CONFIGURED


# `acts=False`: the file is given only to the person, like an answer.
@tool(
    requires=Permission.USER,
    acts=False,
    spends_budget=True,
    timeout_seconds=SECONDS,
    needs=needs_model,
    words=("Recording a voice message", "Recorded a voice message"),
)
async def speak(context: ToolContext, text: str, voice: str | None = None, title: str = "answer") -> dict[str, Any]:
    """Speak a text: an audio file for the reply.

    Example: {"text": "Good night."} -> answer.mp3
    """
    settings = context.settings(VoiceSettings)
    spoken, chosen = clean(text).strip(), clean(voice or "").strip() or settings.speech_voice
    if settings.speech_model is None:
        raise ToolError(f"Nothing can be spoken: {NOT_CONFIGURED}.")
    if not 0 < len(spoken) <= MAX_TEXT_CHARS:
        raise ToolError(f"text needs 1 to {MAX_TEXT_CHARS:,} characters.")
    if len(chosen) > MAX_VOICE_CHARS:
        raise ToolError(f"voice has at most {MAX_VOICE_CHARS} characters.")
    tokens = count_speech(context.app_settings, len(spoken) / CHARS_A_SECOND)
    sound = await context.speak(spoken, model=settings.speech_model, voice=chosen, tokens=tokens)
    file = await context.storage.create(f"{clean(title).strip() or 'answer'}.mp3", sound)
    if not file.mime_type.startswith("audio/"):
        await context.storage.delete(file.file_id)
        raise ToolError("The model for speech has answered with something that is no sound.")
    return {**file.note, "file_id": file.file_id, "filename": file.filename, "url": file.url}
