"""A program that reads an image from standard input and writes a small square of its middle to standard output.

The output has the first frame only, rotated by its EXIF orientation, and no metadata. The program runs in the sandbox;
any failure means that the image is damaged or a decompression bomb.
"""

import io
import sys

from PIL import Image, ImageOps

MAX_PIXELS = 64_000_000
FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
# Twice what any page or platform shows.
SIDE = 256
JPEG_QUALITY = 88


def main() -> None:
    """Convert one image: to a PNG if something shines through, else to a JPEG."""
    with Image.open(io.BytesIO(sys.stdin.buffer.read()), formats=FORMATS) as image:
        if image.width * image.height > MAX_PIXELS:
            sys.exit("it has too many pixels")
        # A JPEG is decoded no larger than needed.
        image.draft("RGB", (2 * SIDE, 2 * SIDE))
        pixels = ImageOps.exif_transpose(image).convert("RGBA")
    square = ImageOps.fit(pixels, (SIDE, SIDE), Image.Resampling.LANCZOS)
    output = io.BytesIO()
    if square.getchannel("A").getextrema() == (255, 255):
        square.convert("RGB").save(output, "JPEG", quality=JPEG_QUALITY)
    else:
        Image.frombytes("RGBA", square.size, square.tobytes()).save(output, "PNG")
    sys.stdout.buffer.write(output.getvalue())


if __name__ == "__main__":
    main()
