"""A program that reads an image from standard input and writes it, scaled down, to standard output.

The output has the first frame only, rotated by its EXIF orientation, and no metadata. The program runs in the sandbox;
any failure means that the image is damaged or a decompression bomb.
"""

import io
import sys

from PIL import Image, ImageOps

MAX_PIXELS = 64_000_000
FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
# Providers scale down larger images before the model gets them.
MAX_SIDE = 1568
# Drawings and screenshots are sharper as PNG; one that is larger than this is probably a photograph.
MAX_PNG_BYTES = 600 * 1024
JPEG_QUALITY = 85


def main() -> None:
    """Convert one image; the first byte of the output is its format, `p` for PNG or `j` for JPEG."""
    with Image.open(io.BytesIO(sys.stdin.buffer.read()), formats=FORMATS) as image:
        if image.width * image.height > MAX_PIXELS:
            sys.exit("it has too many pixels")
        is_drawn = image.format in ("PNG", "GIF")
        image.thumbnail((MAX_SIDE, MAX_SIDE))
        resized = on_white(ImageOps.exif_transpose(image))
    sys.stdout.buffer.write(encode(resized, is_drawn=is_drawn))


def on_white(image: Image.Image) -> Image.Image:
    """Return the pixels of the image on a white background, without transparency or metadata."""
    pixels = image.convert("RGBA")
    background = Image.new("RGBA", pixels.size, "white")
    background.alpha_composite(pixels)
    return background.convert("RGB")


def encode(image: Image.Image, *, is_drawn: bool) -> bytes:
    """Return the byte that names the format, followed by the encoded image."""
    if is_drawn:
        png = io.BytesIO()
        image.save(png, "PNG")
        if png.tell() <= MAX_PNG_BYTES:
            return b"p" + png.getvalue()
    jpeg = io.BytesIO()
    image.save(jpeg, "JPEG", quality=JPEG_QUALITY)
    return b"j" + jpeg.getvalue()


if __name__ == "__main__":
    main()
