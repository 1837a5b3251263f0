"""Requests for images, transcripts and speech, and the usage of the answers."""

from typing import Any, ClassVar

from msgspec import Struct

from agent.llm.completions import Cause, RouteFailed
from shared.errors import ToolError, Unavailable
from shared.messages import EstimatedUsage, Usage


class _MediaRequest(Struct, frozen=True):
    # The sentences for the tool, about a request that the provider refuses and about any other failure.
    refused: ClassVar[str]
    failed: ClassVar[str]

    def to_error(self, failure: RouteFailed) -> ToolError | Unavailable:
        """Convert the failure of the route to an error for the tool."""
        is_refused = failure.cause in (Cause.REQUEST_REFUSED, Cause.FILTERED)
        return ToolError(self.refused) if is_refused else Unavailable(self.failed)


class DrawingRequest(_MediaRequest, frozen=True):
    """A request for one image; `tokens` is its usage if the provider reports none."""

    refused = "The image model refuses this request; describe the picture in another way."
    failed = "The image model can't be reached just now."
    model: str
    prompt: str
    size: str
    tokens: int

    def to_usage(self, reported: Any, cost: float | None) -> Usage:
        """Return the usage that the provider has reported, with the price of the image."""
        input_tokens, output_tokens = _counts(reported)
        return (
            Usage(input_tokens, 0, output_tokens, cost=cost)
            if output_tokens
            else EstimatedUsage(input_tokens, 0, self.tokens, cost=cost)
        )

    @property
    def estimated(self) -> Usage:
        """Return the usage if the provider reports none."""
        return self.to_usage(None, None)


class TranscriptionRequest(_MediaRequest, frozen=True):
    """A recording of `seconds` to be written down; `tokens` is its usage if the provider reports none."""

    refused = "the model for transcription refuses this recording"
    failed = "the model for transcription can't be reached just now"
    model: str
    filename: str
    content: bytes
    seconds: float
    tokens: int

    def to_usage(self, reported: Any) -> Usage:
        """Return the usage that the provider has reported, without its price."""
        heard, output_tokens = _counts(reported)
        return Usage(heard, 0, output_tokens) if heard else self.estimated

    @property
    def paid_for(self) -> dict[str, Any]:
        """Return what models that are paid by the minute are paid for, as litellm reads it."""
        return {"call_type": "atranscription", "audio_transcription_file_duration": self.seconds}

    @property
    def estimated(self) -> Usage:
        """Return the usage if the provider reports none."""
        return EstimatedUsage(self.tokens)


class SpeechRequest(_MediaRequest, frozen=True):
    """A text to be spoken as MP3; `tokens` is its usage, as providers report none."""

    refused = "The model for speech refuses this request: is there a voice of that name?"
    failed = "The model for speech can't be reached just now."
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


def _counts(reported: Any) -> tuple[int, int]:
    counts = [getattr(reported, name, None) for name in ("input_tokens", "output_tokens")]
    input_tokens, output_tokens = (count if isinstance(count, int) and count > 0 else 0 for count in counts)
    return input_tokens, output_tokens
