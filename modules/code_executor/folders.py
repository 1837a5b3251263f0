"""The folder of a run: filled before it, read and removed after it. What is in it then, the code has written."""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from shared.sandbox.job import FILES, OUTPUT, SETTINGS_FOLDER, STATE

PREFIX = "parley-code-"
# A worker that was killed leaves its folder.
LEFT_OVER_SECONDS = 3600
MAX_OUTPUT_BYTES = 64 * 1024
MAX_MADE = 10

Stamps = Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Made:
    """The files that a run has made or changed, by name, and the names of those beyond `MAX_MADE`."""

    files: Mapping[str, bytes]
    left_out: tuple[str, ...]


def make_folder(environment: Path, now: datetime) -> Path:
    """Make a folder for one run, and remove what crashes have left; raises `OSError`.

    It is in the system's folder for temporary files, because others may go through that: the run is another user.
    """
    for old in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            if now.timestamp() - old.stat().st_mtime > LEFT_OVER_SECONDS:
                shutil.rmtree(old, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    (folder / FILES).mkdir()
    # With a list of fonts, matplotlib need not look for them, which takes seconds.
    fonts = environment / SETTINGS_FOLDER
    if fonts.is_dir():
        shutil.copytree(fonts, folder / SETTINGS_FOLDER)
    return folder


def fill_folder(folder: Path, files: Mapping[str, bytes], state: bytes | None) -> Stamps:
    """Write the person's files and variables, and return what tells later whether a file has changed."""
    for name, content in files.items():
        (folder / FILES / name).write_bytes(content)
    if state is not None:
        (folder / STATE).write_bytes(state)
    return {name: _stamp((folder / FILES / name).stat()) for name in files}


def read_output(folder: Path) -> str:
    """Return what was printed: of more than 64 KB the beginning and the end."""
    path = folder / OUTPUT
    size = path.stat().st_size
    with path.open("rb") as file:
        if size <= MAX_OUTPUT_BYTES:
            return file.read().decode("utf-8", "replace")
        beginning = file.read(MAX_OUTPUT_BYTES // 2)
        file.seek(-MAX_OUTPUT_BYTES // 2, os.SEEK_END)
        end = file.read()
    middle = f"\n… {size - MAX_OUTPUT_BYTES:,} bytes left out …\n"
    return beginning.decode("utf-8", "replace") + middle + end.decode("utf-8", "replace")


def read_made(folder: Path, before: Stamps) -> Made:
    """Return the files that are new or changed, in the order of their names; links lead nowhere."""
    root = folder / FILES
    paths = sorted(_list_made(root, before))
    files = {}
    for path in paths[:MAX_MADE]:
        content = read_regular(path)
        if content is not None:
            files["_".join(path.relative_to(root).parts)] = content
    return Made(files, tuple(str(each.relative_to(root)) for each in paths[MAX_MADE:]))


def read_regular(path: Path) -> bytes | None:
    """Return a file's content, None when it is no plain file: a link, or a pipe that nobody writes to."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(opened, "rb") as file:
        return file.read() if stat.S_ISREG(os.fstat(opened).st_mode) else None


def _list_made(root: Path, before: Stamps) -> Iterator[Path]:
    for place, folders, names in os.walk(root):
        folders[:] = [each for each in folders if not each.startswith((".", "__"))]
        for name in names:
            path = Path(place, name)
            found = path.lstat()
            is_known = before.get(str(path.relative_to(root))) == _stamp(found)
            if stat.S_ISREG(found.st_mode) and not name.startswith(".") and not is_known:
                yield path


def _stamp(found: os.stat_result) -> tuple[int, int]:
    return found.st_mtime_ns, found.st_size
