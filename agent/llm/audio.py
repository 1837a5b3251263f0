"""Requests for transcripts and for speech, and the usage of the answers."""

from dataclasses import dataclass
from typing import Any

from agent.llm.completions import Cause, RouteFailed
from shared.errors import ToolError, Unavailable
from shared.messages import EstimatedUsage, Usage


@dataclass(frozen=True, slots=True)
class TranscriptionRequest:
    """A recording of `seconds` to be written down; `tokens` is its usage if the provider reports none."""

    model: str
    filename: str
    content: bytes
    seconds: float
    tokens: int

    def to_usage(self, reported: Any) -> Usage:
        """Return the usage that the provider has reported, without its price."""
        counts = [getattr(reported, name, None) for name in ("input_tokens", "output_tokens")]
        heard, written = (count if isinstance(count, int) and count > 0 else 0 for count in counts)
        return Usage(heard, 0, written) if heard else self.estimated

    @property
    def paid_for(self) -> dict[str, Any]:
        """Return what models that are paid by the minute are paid for, as litellm reads it."""
        return {"call_type": "atranscription", "audio_transcription_file_duration": self.seconds}

    @property
    def estimated(self) -> Usage:
        """Return the usage if the provider reports none."""
        return EstimatedUsage(self.tokens)

    def to_error(self, failure: RouteFailed) -> ToolError | Unavailable:
        """Convert the failure of the route to an error for the tool."""
        if failure.cause is Cause.REQUEST_REFUSED:
            return ToolError("the model for transcription refuses this recording")
        return Unavailable("the model for transcription can't be reached just now")


@dataclass(frozen=True, slots=True)
class SpeechRequest:
    """A text to be spoken as MP3; `tokens` is its usage, as providers report none."""

    model: str
    text: str
    voice: str
    tokens: int

    @property
    def estimated(self) -> Usage:
        """Return the usage."""
        return EstimatedUsage(0, 0, self.tokens)

    @property
    def paid_for(self) -> dict[str, Any]:
        """Return what models that are paid by the character are paid for, as litellm reads it."""
        return {"call_type": "aspeech", "prompt_characters": len(self.text)}

    def to_error(self, failure: RouteFailed) -> ToolError | Unavailable:
        """Convert the failure of the route to an error for the tool."""
        if failure.cause is Cause.REQUEST_REFUSED:
            return ToolError("The model for speech refuses this request: is there a voice of that name?")
        return Unavailable("The model for speech can't be reached just now.")
