"""Walks, reads and removes what confined code has made: by descriptors, because every name in it is the code's own."""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

from msgspec import Struct, field

from shared.clock import SystemClock

MAX_DEPTH = 32
# A worker that was killed leaves its folders; no run takes as long.
LEFT_OVER_SECONDS = 3600
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe that nobody writes to is not waited for.
REGULAR = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
HANDLE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class TooDeep(Exception):
    """Folders are nested deeper than `MAX_DEPTH`."""


class Entry(Struct, frozen=True):
    """A file or a folder: where it is below the root of the walk, and what it is, links not followed."""

    parts: tuple[str, ...]
    folder: int
    stat: os.stat_result

    @property
    def name(self) -> str:
        """Return its name in its folder."""
        return self.parts[-1]


class Level(Struct):
    """An open folder of a walk, and the names in it that have not been looked at."""

    folder: int
    parts: tuple[str, ...]
    names: Iterator[str] = field(default_factory=lambda: iter(()))


def make_folder(prefix: str) -> Path:
    """Make a folder for one run, and remove those of this prefix that crashes have left; raises `OSError`.

    It is in the system's folder for temporary files, because others may go through that: the run is another user.
    """
    for old in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with suppress(OSError):
            if SystemClock().now().timestamp() - old.lstat().st_mtime > LEFT_OVER_SECONDS:
                remove(old)
    return Path(tempfile.mkdtemp(prefix=prefix))


def walk(root: Path) -> Iterator[Entry]:
    """Yield all that is below a folder; `Entry.folder` is open until the next entry.

    Raises `TooDeep`. What can't be looked at, or is gone meanwhile, is left out. The root's own name must not be the
    code's to change.
    """
    levels: list[Level] = []
    try:
        _enter(levels, root)
        while levels:
            level = levels[-1]
            name = next(level.names, None)
            if name is None:
                os.close(levels.pop().folder)
                continue
            try:
                status = os.stat(name, dir_fd=level.folder, follow_symlinks=False)
            except OSError:
                continue
            yield Entry((*level.parts, name), level.folder, status)
            if stat.S_ISDIR(status.st_mode):
                _enter(levels, name)
    finally:
        for level in levels:
            os.close(level.folder)


def _enter(levels: list[Level], name: str | Path) -> None:
    """Open a folder of the innermost level, or the root of the walk; one that can't be opened has no names."""
    if len(levels) > MAX_DEPTH:
        raise TooDeep
    parent, parts = (levels[-1].folder, (*levels[-1].parts, str(name))) if levels else (None, ())
    with suppress(OSError):
        try:
            folder = os.open(name, FOLDER, dir_fd=parent)
        except PermissionError:
            _open_to_owner(parent, name)
            folder = os.open(name, FOLDER, dir_fd=parent)
        levels.append(Level(folder, parts))
        levels[-1].names = iter(sorted(os.listdir(levels[-1].folder)))  # noqa: PTH208  # no path, a descriptor


def read_file(name: str | Path, most_bytes: int, folder: int | None = None) -> bytes | None:
    """Return a file's content, None when it has other names, is larger, or is no plain file, such as a link."""
    try:
        descriptor = os.open(name, REGULAR, dir_fd=folder)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            return None
        content = file.read(most_bytes + 1)
    return content if len(content) <= most_bytes else None


def remove(root: Path) -> bool:
    """Remove a folder with all that is in it, however deep; return whether it is gone. Raises nothing of the system's.

    Folders within are moved up before they are emptied, so that no more than two are open at a time.
    """
    try:
        top = os.open(root, FOLDER)
    except OSError:
        return not root.exists()
    try:
        numbers = count()
        while names := _folders_after_removing_files(top):
            is_smaller = False
            for name in names:
                is_smaller |= _flatten(top, name, numbers)
            if not is_smaller:
                return False
    except OSError:
        return False
    finally:
        os.close(top)
    with suppress(OSError):
        root.rmdir()
    return not root.exists()


def _flatten(top: int, name: str, numbers: Iterator[int]) -> bool:
    """Move the folders within one to the top and remove it; return whether that worked."""
    try:
        _open_to_owner(top, name)
        inner = os.open(name, FOLDER, dir_fd=top)
        try:
            for folder in _folders_after_removing_files(inner):
                _open_to_owner(inner, folder)
                os.rename(folder, f".removed-{os.getpid()}-{next(numbers)}", src_dir_fd=inner, dst_dir_fd=top)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=top)
    except OSError:
        return False
    return True


def _folders_after_removing_files(folder: int) -> list[str]:
    folders = []
    for name in os.listdir(folder):
        try:
            os.unlink(name, dir_fd=folder)
        except (IsADirectoryError, PermissionError):
            folders.append(name)
    return folders


def _open_to_owner(folder: int | None, name: str | Path) -> None:
    # Code may make folders that their owner can't look into.
    handle = os.open(name, HANDLE, dir_fd=folder)
    try:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            Path(f"/proc/self/fd/{handle}").chmod(stat.S_IRWXU)
    finally:
        os.close(handle)
