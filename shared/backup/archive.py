"""The archive of a backup: a zip file whose last entry, the manifest, has the size and the hash of all others.

Entries are written and read in chunks, whatever their size. A zip file ends with its table of contents: one that was
cut off can't be opened.
"""

import hashlib
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Protocol

from pydantic import BaseModel, ConfigDict

from shared.errors import ParleyError
from shared.files.stores.folder import KEY_PART, open_owner_only

FORMAT = 1
MANIFEST = "manifest.json"
DATABASE = "database.dump"
FILES, SECRETS = "files/", "secrets/"
SECRET_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
CHUNK_BYTES = 256 * 1024
# What zipfile raises for bytes that are no zip file of its kind.
UNREADABLE = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, RuntimeError, ValueError)
MOST_MANIFEST_BYTES = 256 * 1024 * 1024


class BackupError(ParleyError):
    """The backup can't be made or read."""

    code = "backup"


class Entry(BaseModel):
    """The size and the SHA-256 of an entry."""

    bytes: int
    sha256: str


class AuditState(BaseModel):
    """The state of the audit log: how long it is, its newest hash, and the first entry that was altered, if any."""

    entries: int = 0
    last_hash: str | None = None
    first_broken: int | None = None


class Manifest(BaseModel):
    """What an archive holds.

    `revisions` has the revision of Parley's tables, `alembic_version`, and the last SQL file of each owner of others;
    `roles` tells for each role of ours whether it may log in, `members` which of them belong to which. `rows` counts
    the rows of each table. `missing` are files that have a row, and were not in the store; `damaged` are those that the
    store had with another content than was stored.
    """

    model_config = ConfigDict(frozen=True)

    format: int
    version: str
    made_at: datetime
    postgres: int
    revisions: dict[str, str]
    roles: dict[str, bool]
    members: list[tuple[str, str]]
    rows: dict[str, int]
    audit: AuditState
    missing: list[str]
    damaged: list[str] = []
    entries: dict[str, Entry]


class Sink(Protocol):
    """What an entry is written to."""

    def write(self, chunk: bytes, /) -> object:
        """Add these bytes."""
        ...


class _Counted:
    # Hashes what is written to an entry.
    def __init__(self, entry: Sink) -> None:
        self._entry, self._hash, self._bytes = entry, hashlib.sha256(), 0

    def write(self, chunk: bytes) -> None:
        self._entry.write(chunk)
        self._hash.update(chunk)
        self._bytes += len(chunk)

    def result(self) -> Entry:
        return Entry(bytes=self._bytes, sha256=self._hash.hexdigest())


class ArchiveWriter:
    """Writes an archive; `entries` are those that are finished."""

    def __init__(self, file: BinaryIO) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True)
        self.entries: dict[str, Entry] = {}

    @contextmanager
    def entry(self, name: str) -> Iterator[Sink]:
        """Open a new entry for the block; one at a time."""
        with self._zip.open(name, "w", force_zip64=True) as file:
            counted = _Counted(file)
            yield counted
        self.entries[name] = counted.result()

    def finish(self, manifest: Manifest) -> None:
        """Write the manifest, the last entry."""
        self._zip.writestr(MANIFEST, manifest.model_dump_json(indent=1))

    def close(self) -> None:
        """Write the table of contents."""
        self._zip.close()


class Archive:
    """An archive that was opened; only `opened` makes one, and checks it first."""

    def __init__(self, zipped: zipfile.ZipFile, manifest: Manifest) -> None:
        self._zip, self.manifest = zipped, manifest

    def names(self, prefix: str) -> list[str]:
        """Return the names of the entries in this folder, without it."""
        return [name.removeprefix(prefix) for name in self.manifest.entries if name.startswith(prefix)]

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield the content of an entry."""
        with self._zip.open(name) as entry:
            while chunk := entry.read(CHUNK_BYTES):
                yield chunk


@contextmanager
def created(path: Path) -> Iterator[ArchiveWriter]:
    """Write an archive that only its owner may read; the file has its name when it is complete.

    Raises `BackupError` when there is a file of this name.
    """
    if path.exists():
        raise BackupError(f"{path} is there already; choose another name.")
    part = path.with_name(f"{path.name}.part")
    try:
        part.unlink(missing_ok=True)
        with open(part, "xb", opener=open_owner_only) as file:
            with closing(ArchiveWriter(file)) as archive:
                yield archive
            file.flush()
            os.fsync(file.fileno())
        part.rename(path)
    except OSError as error:
        raise BackupError(f"{path} can't be written: {error.strerror or error}.") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


@contextmanager
def opened(path: Path) -> Iterator[Archive]:
    """Open an archive, read all of it, and compare it with its manifest; raises `BackupError` when they differ."""
    try:
        zipped = zipfile.ZipFile(path)
    except OSError as error:
        raise BackupError(f"{path} can't be read: {error.strerror or error}.") from error
    except UNREADABLE as error:
        raise BackupError(f"{path} is cut off, or it is no backup of Parley ({error}).") from error
    with zipped:
        try:
            if zipped.getinfo(MANIFEST).file_size > MOST_MANIFEST_BYTES:
                raise BackupError(f"{path} is damaged: its manifest is too large.")
            manifest = Manifest.model_validate_json(zipped.read(MANIFEST))
        except KeyError:
            raise BackupError(f"{path} is no backup of Parley: it has no manifest.") from None
        except UNREADABLE as error:
            raise BackupError(f"{path} is damaged: its manifest can't be read ({type(error).__name__}).") from error
        if manifest.format != FORMAT:
            raise BackupError(
                f"{path} was made by Parley {manifest.version}, in a format that this release can't read."
            )
        archive = Archive(zipped, manifest)
        names = sorted(manifest.entries)
        if sorted(set(zipped.namelist()) - {MANIFEST}) != names or len(zipped.namelist()) != len(names) + 1:
            raise BackupError(f"{path} is damaged: its entries are not those that its manifest names.")
        for name in names:
            _check_entry(archive, name, path)
        yield archive


def _check_entry(archive: Archive, name: str, path: Path) -> None:
    if not is_permitted(name):
        raise BackupError(f"{path} is damaged: it has an entry {name!r}, which no backup has.")
    sha256, size = hashlib.sha256(), 0
    try:
        for chunk in archive.chunks(name):
            sha256.update(chunk)
            size += len(chunk)
    except UNREADABLE as error:
        raise BackupError(f"{path} is damaged: {name} can't be read ({error}).") from error
    if Entry(bytes=size, sha256=sha256.hexdigest()) != archive.manifest.entries[name]:
        raise BackupError(f"{path} is damaged: {name} is not what its manifest says.")


def is_permitted(name: str) -> bool:
    """Tell whether an entry may have this name, which becomes a path or a key in the store."""
    if name.startswith(FILES):
        return all(KEY_PART.fullmatch(part) for part in name.removeprefix(FILES).split("/"))
    if name.startswith(SECRETS):
        return SECRET_NAME.fullmatch(name.removeprefix(SECRETS)) is not None
    return name == DATABASE
