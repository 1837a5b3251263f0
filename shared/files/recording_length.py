"""A program that reads a recording from standard input and writes its length in seconds to standard output.

The length that a file's header states is anybody's word, and a model hears what is there: the longer of the two counts.
What is there is counted for WAV, MP3, AAC, Opus in Ogg, and AAC in MP4; of other kinds there is at least what their
bytes need at the highest rate. It runs in the sandbox; any failure means that the length can't be told.
"""

import io
import struct
import sys
from collections.abc import Iterator

from tinytag import TinyTag

MOST_BYTES_A_SECOND = 192_000
# By the version's and the layer's bits in the header of a frame: kbit/s by index, and samples.
MP3_KBITS = {
    (3, 3): (0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (3, 2): (0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (3, 1): (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (2, 3): (0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (2, 2): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
MP3_RATES = (44_100, 48_000, 32_000)
AAC_RATES = (96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350)
AAC_SAMPLES = 1024
# Milliseconds of an Opus frame by the configuration in a packet's first byte: SILK, hybrid, CELT.
OPUS_FRAMES = (10, 20, 40, 60) * 3 + (10, 20) * 2 + (2.5, 5, 10, 20) * 4
MP4_CONTAINERS = (b"moov", b"trak", b"mdia", b"minf", b"stbl")


def main() -> None:
    """Write the length of one recording."""
    content = sys.stdin.buffer.read()
    seconds = max(read_header(content), count(content), len(content) / MOST_BYTES_A_SECOND)
    if seconds <= 0:
        sys.exit("it has no length")
    sys.stdout.write(str(float(seconds)))


def read_header(content: bytes) -> float:
    """Return the length that a recording states."""
    tag = TinyTag.get(file_obj=io.BytesIO(content), tags=False)
    if not tag.duration or tag.duration <= 0:
        sys.exit("it has no length")
    return float(tag.duration)


def count(content: bytes) -> float:
    """Return the seconds of sound in a recording; 0 for kinds that can't be counted."""
    if content[:4] in (b"RIFF", b"RIFX", b"RF64") and content[8:12] == b"WAVE":
        return count_wav(content)
    if content.startswith(b"OggS"):
        return count_opus(content)
    if content[4:8] == b"ftyp":
        return max(map(count_track, find_boxes(content, 0, len(content))), default=0.0)
    if content.startswith((b"ID3", b"\xff")):
        return count_frames(content)
    return 0.0


def count_wav(content: bytes) -> float:
    """Return the length of all that follows the first chunk of data, whatever size that states."""
    form, data = content.find(b"fmt ", 12), content.find(b"data", 12)
    if form < 0 or data < 0:
        return 0.0
    kind, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", content, form + 8)
    bytes_a_second = channels * rate * bits / 8
    # Plain numbers, 16 bits of which are a sample; other kinds state how they are packed.
    return (len(content) - data - 8) / bytes_a_second if kind in (1, 3, 6, 7, 0xFFFE) and bytes_a_second else 0.0


def count_frames(content: bytes) -> float:
    """Return the length of the frames of an MP3 or AAC stream, one behind the other."""
    start = 0
    if content.startswith(b"ID3"):
        start = 10 + sum((byte & 127) << 7 * (3 - place) for place, byte in enumerate(content[6:10]))
    seconds, at = 0.0, content.find(b"\xff", start)
    while 0 <= at < len(content) - 6:
        size, duration = read_frame(content[at : at + 6])
        seconds += duration
        at = at + size if size else content.find(b"\xff", at + 1)
    return seconds


def read_frame(head: bytes) -> tuple[int, float]:
    """Return the bytes and the seconds of the frame with this head; zeros if it is none."""
    if head[1] & 0xF6 == 0xF0:
        index, size = head[2] >> 2 & 15, (head[3] & 3) << 11 | head[4] << 3 | head[5] >> 5
        is_frame = index < len(AAC_RATES) and size > 6
        return (size, AAC_SAMPLES / AAC_RATES[index]) if is_frame else (0, 0.0)
    version, layer, index, rate_index = head[1] >> 3 & 3, head[1] >> 1 & 3, head[2] >> 4, head[2] >> 2 & 3
    if head[1] & 0xE0 != 0xE0 or version == 1 or layer == 0 or not 0 < index < 15 or rate_index == 3:
        return 0, 0.0
    kbits = MP3_KBITS[3 if version == 3 else 2, layer if version == 3 or layer == 3 else 2][index]
    rate = MP3_RATES[rate_index] // {3: 1, 2: 2, 0: 4}[version]
    samples = 384 if layer == 3 else 576 if layer == 1 and version != 3 else 1152
    padding = (head[2] >> 1 & 1) * (4 if layer == 3 else 1)
    return samples // 8 * kbits * 1000 // rate + padding, samples / rate


def count_opus(content: bytes) -> float:
    """Return the length of the Opus packets in an Ogg file by what each says of itself; 0 if there are none."""
    packets = iterate_packets(content)
    if not next(packets, b"").startswith(b"OpusHead"):
        return 0.0
    next(packets, None)
    return sum(map(read_opus, packets)) / 1000


def iterate_packets(content: bytes) -> Iterator[bytes]:
    """Yield the beginnings of the packets of an Ogg file."""
    at, packet = 0, b""
    while (at := content.find(b"OggS", at)) >= 0 and at + 27 <= len(content):
        sizes = content[at + 27 : at + 27 + content[at + 26]]
        at += 27 + len(sizes)
        for size in sizes:
            packet += content[at : at + min(size, 8)] if len(packet) < 8 else b""
            at += size
            if size < 255:
                yield packet
                packet = b""


def read_opus(packet: bytes) -> float:
    """Return the milliseconds of an Opus packet."""
    if not packet:
        return 0.0
    code = packet[0] & 3
    frames = (packet[1] & 63 if len(packet) > 1 else 0) if code == 3 else min(code, 1) + 1
    return min(120.0, OPUS_FRAMES[packet[0] >> 3] * frames)


def find_boxes(content: bytes, start: int, end: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield for each track of an MP4 file its description of samples, and its table of their sizes."""
    description, sizes = b"", b""
    while start + 8 <= end:
        size, kind = struct.unpack_from(">I4s", content, start)
        body = start + 8
        if size == 1:
            size, body = struct.unpack_from(">Q", content, body)[0], body + 8
        stop = min(end, start + size if size else end)
        if stop < body:
            return
        if kind in MP4_CONTAINERS:
            yield from find_boxes(content, body, stop)
        elif kind == b"stsd":
            description = content[body : min(stop, body + 4096)]
        elif kind in (b"stsz", b"stz2"):
            sizes = content[body : body + 12]
        start = stop
    if description and len(sizes) == 12:
        yield description, sizes


def count_track(track: tuple[bytes, bytes]) -> float:
    """Return the length of a track of AAC; 0 for others."""
    description, sizes = track
    if (at := description.find(b"mp4a")) < 0 or (esds := description.find(b"esds", at)) < 0:
        return 0.0
    # Descriptors of the decoder: 5 is its configuration, whose length is written in up to four bytes.
    config = description.find(b"\x05", description.find(b"\x04", esds + 8) + 14) + 1
    while config < len(description) and description[config] & 0x80:
        config += 1
    first, second = description[config + 1 : config + 3]
    index = (first & 7) << 1 | second >> 7
    rate = AAC_RATES[index] if index < len(AAC_RATES) else AAC_RATES[-1]
    return float(struct.unpack_from(">I", sizes, 8)[0]) * AAC_SAMPLES / rate


if __name__ == "__main__":
    main()
