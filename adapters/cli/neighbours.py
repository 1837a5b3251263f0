"""The processes of one installation, on whatever machines: whether this one fits with those that run already.

Each has a row with a lease. Doors and workers have to keep files in one place and to sign with the same key: what a
worker makes, a door hands out.
"""

import asyncio
import hashlib
import hmac
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from adapters.base import name_holder
from adapters.cli.console import complain, shorten
from shared.db.database import DatabaseLost
from shared.db.statements import load_statements
from shared.errors import ConfigurationError
from shared.log import get_logger
from shared.settings import Secrets, Settings
from shared.settings.home import make_secret

if TYPE_CHECKING:
    from agent.app import App
    from shared.db.single import SessionSource

statements = load_statements(__file__)

LEASE_SECONDS, RENEW_SECONDS = 45.0, 15.0

log = get_logger()


class FilesElsewhere(ConfigurationError):
    """Files are kept in {folder} here, and {elsewhere} at the process {other}: what one keeps, the other can't read. Set S3_ENDPOINT, S3_ACCESS_KEY and S3_SECRET_KEY for all processes, or give all the same folder; if {other} has just died, start again in a minute."""  # noqa: E501  # one sentence for people


class OtherKey(ConfigurationError):
    """SECRET_KEY is not that of the process {other}: sessions and links of one would be refused by the other. Set the same SECRET_KEY for all processes; if {other} has just died, start again in a minute."""  # noqa: E501  # one sentence for people


class Neighbours:
    """The row of this process, and those of the others that live."""

    def __init__(
        self, database: "SessionSource", settings: Settings, secrets: Secrets, *, renew_seconds: float = RENEW_SECONDS
    ) -> None:
        self._database, self._settings, self._renew_seconds = database, settings, renew_seconds
        self._name = name_holder()
        self._parameters: dict[str, Any] = {
            "name": self._name,
            "lease": LEASE_SECONDS,
            "store": to_store(settings),
            "key_hashes": list_key_hashes(secrets),
            "token_hash": hmac.digest(secrets.secret_keys[0].encode(), secrets.api_token.encode(), "sha256").hex()[:16],
        }

    async def join(self) -> list[str]:
        """Store the row; return sentences about what an operator should look at.

        Raises `ConfigurationError` when this process does not fit with one that was there before; then it has no row.
        """
        await self._renew()
        try:
            return await self._list_differences()
        except ConfigurationError:
            await self._remove()
            raise

    async def check(self) -> None:
        """Raise `ConfigurationError` when this process, which has no row, does not fit with the others."""
        await self._list_differences()

    async def _list_differences(self) -> list[str]:
        async with self._database.statement() as session:
            rows = (await session.execute(statements.list_processes, self._parameters)).all()
        return list(dict.fromkeys(sentence for row in rows for sentence in self._compare(row)))

    def _compare(self, row: Any) -> list[str]:
        own, other = self._parameters, row.name.rpartition(":")[0]
        sentences = []
        if row.store != own["store"]:
            elsewhere = "in another folder" if row.store.startswith("folder ") else f"in {row.store}"
            if not self._settings.s3_endpoint:
                folder = shorten(self._settings.parley_home / "files")
                raise FilesElsewhere(folder=folder, elsewhere=elsewhere, other=other)
            sentences.append(f"files are kept in {own['store']} here, and {elsewhere} at the process {other}")
        if not set(own["key_hashes"]) & set(row.key_hashes):
            raise OtherKey(other=other)
        if row.key_hashes == own["key_hashes"] and row.token_hash != own["token_hash"]:
            sentences.append(f"API_TOKEN is not that of the process {other}: callers of one are refused by the other")
        return sentences

    @asynccontextmanager
    async def joined(self) -> AsyncIterator[Sequence[str]]:
        """Be one of them for the block, which gets the sentences."""
        sentences = await self.join()
        staying = asyncio.create_task(self._stay(), name="neighbours")
        try:
            yield sentences
        finally:
            staying.cancel()
            await asyncio.gather(staying, return_exceptions=True)
            await self._remove()

    async def _stay(self) -> None:
        last = ""
        while True:
            await asyncio.sleep(self._renew_seconds)
            try:
                await self._renew()
                # One that came while this process was frozen, or was cut off from the database, has not seen its row.
                await self._list_differences()
            except DatabaseLost:
                continue
            except ConfigurationError as error:
                if str(error) != last:
                    log.error("process_differs", cause=str(error))
                last = str(error)

    async def _remove(self) -> None:
        with suppress(DatabaseLost):
            async with self._database.statement() as session:
                await session.execute(statements.remove_process, {"name": self._name})

    async def _renew(self) -> None:
        async with self._database.statement() as session:
            await session.execute(statements.renew_process, self._parameters)


@asynccontextmanager
async def joined(app: "App") -> AsyncIterator[None]:
    """Be one of the installation's processes for the block, and say what an operator should look at.

    Raises `ConfigurationError` when this one does not fit with the others. An embedded database and its files are on
    one machine.
    """
    if app.database.address.is_embedded:
        yield
        return
    async with Neighbours(app.database, app.settings, app.secrets).joined() as sentences:
        for sentence in sentences:
            complain(sentence)
            log.warning("process_differs", cause=sentence)
        yield


def list_key_hashes(secrets: Secrets) -> list[str]:
    """Return what tells the SECRET_KEYs apart."""
    return [to_digest(f"parley neighbour {key}") for key in secrets.secret_keys]


def to_digest(secret: str) -> str:
    """Return what tells secrets apart and does not tell them."""
    return hashlib.sha256(secret.encode()).hexdigest()[:16]


def to_store(settings: Settings) -> str:
    """Return where files are kept, so that two texts are equal only if it is the same place."""
    if settings.s3_endpoint:
        return f"{settings.s3_endpoint}/{settings.s3_bucket}"
    folder = settings.parley_home / "files"
    try:
        # The folder says itself which one it is: machines may share it, and containers have other paths to it.
        return f"folder {make_secret(folder / '.id')[:16]}"
    except OSError as error:
        log.warning("files_not_writable", folder=str(folder), cause=error.strerror)
        return f"folder {socket.gethostname()}:{folder.resolve()}"
