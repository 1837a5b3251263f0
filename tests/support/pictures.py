"""Pictures to send, and those that a model was shown."""

import io
from base64 import b64decode
from typing import Any

from PIL import Image

from tests.support.parley import Parley

GREEN = (0, 160, 0)


def picture(size: tuple[int, int] = (40, 20), kind: str = "PNG", **options: Any) -> bytes:
    """Return a green picture."""
    content = io.BytesIO()
    Image.new("RGB", size, GREEN).save(content, kind, **options)
    return content.getvalue()


def pictures_of(parley: Parley, request: int = -1, message: int = -1) -> list[Image.Image]:
    content = parley.model.requests[request].body["messages"][message]["content"]
    parts = content if isinstance(content, list) else []
    urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    return [Image.open(io.BytesIO(b64decode(url.partition(",")[2]))) for url in urls]
