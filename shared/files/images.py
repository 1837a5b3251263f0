"""Images in storage, as a model is shown them: small, upright, and bare of what a camera wrote into them."""

import asyncio
from base64 import b64encode
from pathlib import Path

from cachetools import LRUCache, TTLCache

from shared.errors import NotFound, Unavailable
from shared.files.storage import Storage
from shared.files.subprocess_sandbox import run_isolated
from shared.log import get_logger

SHRINKER = Path(__file__).with_name("image_resizer.py")
SHRINK_SECONDS = 20.0
TYPES = {b"p": "image/png", b"j": "image/jpeg"}
# One is decoded in up to a gigabyte.
AT_ONCE = 2
# A conversation shows its last images with every message.
KEPT_BYTES = 32 * 1024 * 1024
KEPT_REFUSALS = 10_000
# Perhaps the machine was busy.
REFUSED_SECONDS = 600

log = get_logger()


class Images:
    """The images of the house. One per process: it keeps those that were shown last."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._kept: LRUCache[str, str] = LRUCache(KEPT_BYTES, getsizeof=len)
        # Those that can't be shown would cost every later message of their conversation the time that they took.
        self._refused: TTLCache[str, None] = TTLCache(KEPT_REFUSALS, REFUSED_SECONDS)
        self._places = asyncio.Semaphore(AT_ONCE)

    async def show(self, key: str) -> str | None:
        """Return the image under this key as a `data:` address; None when it is gone, damaged or too large."""
        if (kept := self._kept.get(key)) is not None:
            return kept
        async with self._places:
            if key in self._refused:
                return None
            shown = await self._shrink(key)
        if shown is not None and len(shown) <= KEPT_BYTES:
            self._kept[key] = shown
        return shown

    async def _shrink(self, key: str) -> str | None:
        try:
            content = b"".join([chunk async for chunk in self._storage.get(key)])
        except (NotFound, Unavailable) as error:
            log.warning("image_not_shown", cause=repr(error))
            return None
        try:
            made = await run_isolated(SHRINKER, content=content, seconds=SHRINK_SECONDS)
        except TimeoutError as error:
            self._refused[key] = None
            log.warning("image_not_shown", cause=repr(error))
            return None
        if made.status != 0:
            self._refused[key] = None
            log.info("image_not_shown", status=made.status, cause=made.reason[-200:])
            return None
        return f"data:{TYPES[made.output[:1]]};base64,{b64encode(made.output[1:]).decode()}"
