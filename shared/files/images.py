"""Stored images as models are given them: scaled down, upright and without metadata."""

from base64 import b64encode
from pathlib import Path

from cachetools import LRUCache, TTLCache

from shared.errors import Unavailable
from shared.files.storage import Storage
from shared.files.stored_file import StoredContent
from shared.log import get_logger
from shared.sandbox.programs import Program, SandboxMissing
from shared.tasks import FairPool

RESIZER = Program(Path(__file__).with_name("image_resizer.py")).within(20)
MIME_TYPES = {b"p": "image/png", b"j": "image/jpeg"}
# Decoding one image may take a gigabyte of memory.
MAX_CONCURRENT, MAX_CONCURRENT_OF_PERSON = 2, 1
# The model is given the latest images of a conversation with every message.
CACHE_BYTES = 32 * 1024 * 1024
MAX_FAILURES = 10_000
# A failed image is tried again after this, because the machine may have been overloaded.
FAILURE_SECONDS = 600

log = get_logger()


class Images:
    """Converts and caches images. There is one instance per process."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._cache: LRUCache[str, str] = LRUCache(CACHE_BYTES, getsizeof=len)
        # Without it, every later message of the conversation would try to convert the same image again.
        self._failed: TTLCache[str, None] = TTLCache(MAX_FAILURES, FAILURE_SECONDS)
        self._pool = FairPool(MAX_CONCURRENT, MAX_CONCURRENT_OF_PERSON)

    async def show(self, content: StoredContent) -> str | None:
        """Return an image as a `data:` URL; None when it can't be read as one, or is too large.

        Raises `FileLost` or `FileDamaged` when the store has it no more.
        """
        key = content.key
        if (cached := self._cache.get(key)) is not None:
            return cached
        # The first part of a key is the person's.
        person = key.partition("/")[0]
        async with self._pool.enter(person):
            if key in self._failed:
                return None
            data_url = await self._resize(person, content)
        if data_url is not None and len(data_url) <= CACHE_BYTES:
            self._cache[key] = data_url
        return data_url

    async def _resize(self, person: str, source: StoredContent) -> str | None:
        key = source.key
        try:
            content = b"".join([chunk async for chunk in self._storage.read(source)])
        except Unavailable as error:
            log.warning("image_not_shown", cause=repr(error))
            return None
        try:
            result = await self._storage.sandbox.run(person, RESIZER, content)
        except SandboxMissing as error:
            log.error("image_not_shown", cause=str(error))
            return None
        except TimeoutError as error:
            self._failed[key] = None
            log.warning("image_not_shown", cause=repr(error))
            return None
        # A file may have taken the program over: then the answer is a stranger's, too.
        mime_type = MIME_TYPES.get(result.output[:1])
        if result.status != 0 or mime_type is None:
            self._failed[key] = None
            log.info("image_not_shown", status=result.status, cause=result.reason[-200:])
            return None
        return f"data:{mime_type};base64,{b64encode(result.output[1:]).decode()}"
