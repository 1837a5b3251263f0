"""Recordings for tests."""

import io
import struct
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


def lying_wav(seconds: float) -> bytes:
    """Return a WAV file of this length whose header states one second."""
    sound = recording(seconds)
    at = sound.index(b"data") + 4
    return sound[:at] + struct.pack("<I", 1000) + sound[at + 4 :]


def lying_mp3(seconds: float) -> bytes:
    """Return an MP3 file of this length whose first frame states that there are 38 frames: one second."""
    frame = b"\xff\xfb\x90\x00" + bytes(413)
    first = frame[:36] + b"Xing" + struct.pack(">III", 3, 38, 38 * 417) + frame[52:]
    return first + frame * round(seconds * 44_100 / 1152)


def lying_ogg(seconds: float) -> bytes:
    """Return an Ogg file of Opus packets, 20 ms each, whose pages state that one second has passed."""
    head = b"OpusHead" + struct.pack("<BBHIhB", 1, 1, 0, 48_000, 0, 0)
    tags = b"OpusTags" + struct.pack("<II", 0, 0)
    packets, pages = [b"\x08" + bytes(9)] * round(seconds * 50), [_to_page([head], 0, 0), _to_page([tags], 0, 1)]
    for start in range(0, len(packets), 200):
        pages.append(_to_page(packets[start : start + 200], 48_000, len(pages)))
    return b"".join(pages)


def lying_mp4(seconds: float) -> bytes:
    """Return an MP4 file with AAC of this length, at 44,100 samples a second, whose header states one second."""
    config = b"\x03\x19\x00\x01\x00\x04\x11\x40\x15" + bytes(11) + b"\x05\x02\x12\x08\x06\x01\x02"
    entry = bytes(6) + b"\x00\x01" + bytes(8) + struct.pack(">HHIHH", 1, 16, 0, 44_100, 0)
    mp4a = _to_box(b"mp4a", entry + _to_box(b"esds", bytes(4) + config))
    stsd = _to_box(b"stsd", struct.pack(">II", 0, 1) + mp4a)
    stsz = _to_box(b"stsz", struct.pack(">III", 0, 200, round(seconds * 44_100 / 1024)))
    track = stsd + stsz
    for kind in (b"stbl", b"minf", b"mdia", b"trak"):
        track = _to_box(kind, track)
    mvhd = _to_box(b"mvhd", bytes(12) + struct.pack(">II", 1000, 1000) + bytes(80))
    return _to_box(b"ftyp", b"M4A \x00\x00\x02\x00") + _to_box(b"moov", mvhd + track) + _to_box(b"mdat", bytes(1000))


def _to_page(packets: list[bytes], position: int, number: int) -> bytes:
    head = struct.pack("<4sBBqIIIB", b"OggS", 0, 0, position, 1, number, 0, len(packets))
    return head + bytes(map(len, packets)) + b"".join(packets)


def _to_box(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I4s", len(body) + 8, kind) + body
