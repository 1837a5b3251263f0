"""Recordings for tests."""

import io
import wave


def recording(seconds: float = 3.0) -> bytes:
    """Return silence of this length as WAV."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(1)
        sound.setframerate(1000)
        sound.writeframes(bytes([128]) * round(1000 * seconds))
    return file.getvalue()
