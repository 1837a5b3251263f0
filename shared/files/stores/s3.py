"""A file store in an S3 bucket, through the minio client, whose blocking calls run in a thread pool with a timeout."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from tempfile import SpooledTemporaryFile
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

import urllib3
from certifi import where as certificates
from minio import Minio
from minio.error import MinioException, S3Error
from pydantic import SecretStr

from shared.errors import ConfigurationError, NotFound, Unavailable
from shared.log import get_logger
from shared.settings import Settings

THREADS = 8
CONNECT_SECONDS = 3.0
# How long the server may be silent; with the time to connect, it is less than `CALL_SECONDS`.
READ_SECONDS = 5.0
CALL_SECONDS = 10.0
# One upload call may send many requests.
UPLOAD_FACTOR = 12
CHUNK_BYTES = 256 * 1024
MAX_MEMORY_BYTES = 1024 * 1024
NOT_FOUND_CODES = frozenset({"NoSuchKey", "NoSuchObject", "NoSuchBucket", "NoSuchVersion"})
BUCKET_EXISTS_CODES = frozenset({"BucketAlreadyOwnedByYou", "BucketAlreadyExists"})

Result = TypeVar("Result")
log = get_logger()


class Body(Protocol):
    """The part of urllib3's response that is used here."""

    def read(self, amt: int) -> bytes:
        """Return up to `amt` bytes, none at the end."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...

    def release_conn(self) -> None:
        """Return the connection to the pool."""
        ...


class S3Store:
    """Stores files in one bucket, which is created when it does not exist."""

    def __init__(self, settings: Settings, *, call_seconds: float = CALL_SECONDS) -> None:
        self._call_seconds = call_seconds
        endpoint = settings.s3_endpoint or ""
        url = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}")
        if not url.netloc or url.scheme not in ("", "http", "https") or url.path.strip("/") or "@" in url.netloc:
            raise ConfigurationError(
                "S3_ENDPOINT is wrong: write it as host:port, or as https://host:port without a path."
            )
        self._bucket = settings.s3_bucket
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="s3")
        self._client = Minio(
            url.netloc,
            access_key=_secret_value(settings.s3_access_key),
            secret_key=_secret_value(settings.s3_secret_key),
            secure=url.scheme == "https" if url.scheme else settings.s3_secure,
            http_client=urllib3.PoolManager(
                timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS),
                maxsize=THREADS,
                ca_certs=certificates(),
                # A server that does not answer is asked once: the callers wait.
                retries=urllib3.Retry(
                    total=2, connect=1, read=0, backoff_factor=0.1, status_forcelist=[500, 502, 503, 504]
                ),
            ),
        )

    async def put(self, key: str, chunks: AsyncIterator[bytes], mime_type: str) -> int:
        """Store the chunks and return their size in bytes."""
        # S3 needs the size before the content; more than a megabyte is buffered on disk.
        with SpooledTemporaryFile(max_size=MAX_MEMORY_BYTES) as spool:
            async for chunk in chunks:
                await asyncio.to_thread(spool.write, chunk)
            size = spool.tell()
            await self._call(self._call_seconds * UPLOAD_FACTOR, partial(self._upload, key, spool, size, mime_type))
        return size

    async def get(self, key: str) -> AsyncGenerator[bytes]:
        """Yield the file in chunks; raises `NotFound` when it does not exist."""
        body: Body = await self._call(self._call_seconds, partial(self._client.get_object, self._bucket, key))
        try:
            while chunk := await self._call(self._call_seconds, partial(body.read, CHUNK_BYTES)):
                yield chunk
            body.release_conn()
        finally:
            body.close()

    async def size(self, key: str) -> int:
        """Return the size in bytes; raises `NotFound` when the file does not exist."""
        metadata = await self._call(self._call_seconds, partial(self._client.stat_object, self._bucket, key))
        return int(metadata.size or 0)

    async def delete(self, key: str) -> None:
        """Delete the file if it exists."""
        try:
            await self._call(self._call_seconds, partial(self._client.remove_object, self._bucket, key))
        except NotFound:
            return

    async def aclose(self) -> None:
        """Shut down the thread pool without waiting for it."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _upload(self, key: str, spool: Any, size: int, mime_type: str) -> None:
        try:
            self._write(key, spool, size, mime_type=mime_type)
        except S3Error as error:
            if error.code != "NoSuchBucket":
                raise
            try:
                self._client.make_bucket(self._bucket)
            except S3Error as refusal:
                # Another worker has created it meanwhile.
                if refusal.code not in BUCKET_EXISTS_CODES:
                    raise
            self._write(key, spool, size, mime_type=mime_type)

    def _write(self, key: str, spool: Any, size: int, mime_type: str) -> None:
        spool.seek(0)
        self._client.put_object(self._bucket, key, spool, size, content_type=mime_type, num_parallel_uploads=1)

    async def _call(self, seconds: float, call: Callable[[], Result]) -> Result:
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.get_running_loop().run_in_executor(self._threads, call)
        except S3Error as error:
            if error.code in NOT_FOUND_CODES:
                raise NotFound(what="file") from error
            log.warning("file_store_refused", code=error.code)
            raise Unavailable("The file store refused the request.") from error
        except (MinioException, urllib3.exceptions.HTTPError, OSError) as error:
            log.warning("file_store_down", error=type(error).__name__)
            raise Unavailable("The file store can't be reached just now.") from error


def _secret_value(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret else None
