"""Run as a program: an image on standard input, on standard output the same one, small and bare.

It is turned upright, and only the first frame is kept, nothing of what a camera or an editor wrote beside the pixels.
It bounds its own memory and time, because it reads what anybody may have sent; any failure means damaged, or a bomb.
"""

import io
import resource
import sys

from PIL import Image, ImageOps

MEMORY_BYTES = 1024 * 1024 * 1024
CPU_SECONDS = 15
MAX_PIXELS = 64_000_000
FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
# Providers scale down what is larger before a model sees it.
MAX_SIDE = 1568
# Drawings and screenshots stay sharp as PNG; beyond this size they are photographs.
MAX_PNG_BYTES = 600 * 1024
JPEG_QUALITY = 85


def main() -> None:
    """Read one image and write it; the first byte tells the format: `p` for PNG, `j` for JPEG."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with Image.open(io.BytesIO(sys.stdin.buffer.read()), formats=FORMATS) as image:
        if image.width * image.height > MAX_PIXELS:
            sys.exit("it has too many pixels")
        is_drawn = image.format in ("PNG", "GIF")
        image.thumbnail((MAX_SIDE, MAX_SIDE))
        shown = on_white(ImageOps.exif_transpose(image))
    sys.stdout.buffer.write(encode(shown, is_drawn=is_drawn))


def on_white(image: Image.Image) -> Image.Image:
    """Return the image without transparency, and without anything but its pixels."""
    seen = image.convert("RGBA")
    page = Image.new("RGBA", seen.size, "white")
    page.alpha_composite(seen)
    return page.convert("RGB")


def encode(image: Image.Image, *, is_drawn: bool) -> bytes:
    """Return the image in the format that suits it, behind the byte that names it."""
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
