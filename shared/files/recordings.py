"""Recordings of speech: how long one is, and what speech counts in a budget."""

from math import ceil
from pathlib import Path

from shared.files.storage import FilesOfUser
from shared.settings import Settings

# The label of calls about speech in the ledger.
PURPOSE = "voice"
MEASURE = Path(__file__).with_name("recording_length.py")
MEASURE_SECONDS = 10.0


def count_speech(settings: Settings, seconds: float) -> int:
    """Return the tokens that so much speech counts in a budget if the provider reports none."""
    return max(1, ceil(seconds / 60 * settings.voice_tokens_per_minute))


async def measure(files: FilesOfUser, content: bytes) -> float | None:
    """Return the length of a recording in seconds; None if it can't be told."""
    try:
        found = await files.run_parser(MEASURE, content=content, seconds=MEASURE_SECONDS)
        return float(found.output) if found.status == 0 else None
    except (TimeoutError, ValueError):
        return None
