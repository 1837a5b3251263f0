"""Recordings of speech: how long one is, and what speech counts in a budget."""

from math import ceil, isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from shared.sandbox.job import MEGABYTE, Limits
from shared.sandbox.programs import Program
from shared.settings import Settings

if TYPE_CHECKING:
    from shared.files.storage import FilesOfUser

# The label of calls about speech in the ledger.
PURPOSE = "voice"
LIMITS = Limits(memory_bytes=512 * MEGABYTE, cpu_seconds=5, seconds=10, file_bytes=0)
MEASURE = Program(Path(__file__).with_name("recording_length.py"), limits=LIMITS)


def count_speech(settings: Settings, seconds: float) -> int:
    """Return the tokens that so much speech counts in a budget if the provider reports none."""
    return max(1, ceil(seconds / 60 * settings.voice_tokens_per_minute))


async def measure(files: "FilesOfUser", content: bytes) -> float | None:
    """Return the length of a recording in seconds, whatever its header states; None if it can't be told."""
    try:
        outcome = await files.run_program(MEASURE, content)
        seconds = float(outcome.output) if outcome.status == 0 else 0.0
    except (TimeoutError, ValueError):
        return None
    return seconds if isfinite(seconds) and seconds > 0 else None
