"""The folder of a run: filled before it, read and removed after it. What is in it then, the code has written."""

import os
import shutil
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from shared.sandbox.job import FILES, OUTPUT, SETTINGS_FOLDER, STATE
from shared.sandbox.tree import TooDeep, make_folder, read_file, walk

PREFIX = "parley-code-"
MAX_OUTPUT_BYTES = 64 * 1024
MAX_MADE = 10

Stamps = Mapping[str, tuple[int, int]]


class Made(Struct, frozen=True):
    """The files that a run has made or changed, by name, and the names of those for which there was no room."""

    files: Mapping[str, bytes]
    left_out: tuple[str, ...]


def make_run_folder(environment: Path) -> Path:
    """Make a folder for one run; raises `OSError`."""
    folder = make_folder(PREFIX)
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
    with (folder / OUTPUT).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size <= MAX_OUTPUT_BYTES:
            return file.read(MAX_OUTPUT_BYTES).decode("utf-8", "replace")
        beginning = file.read(MAX_OUTPUT_BYTES // 2)
        file.seek(-MAX_OUTPUT_BYTES // 2, os.SEEK_END)
        end = file.read(MAX_OUTPUT_BYTES // 2)
    middle = f"\n… {size - MAX_OUTPUT_BYTES:,} bytes left out …\n"
    return beginning.decode("utf-8", "replace") + middle + end.decode("utf-8", "replace")


def read_made(folder: Path, before: Stamps, most_bytes: int) -> Made:
    """Return the plain files that are new or changed, in the order of their names, of so many bytes together at most.

    Files with holes in them are larger than what they take on the disk.
    """
    files: dict[str, bytes] = {}
    left_out = []
    with suppress(TooDeep):
        for entry in walk(folder / FILES):
            is_hidden = entry.name.startswith(".") or any(part.startswith((".", "__")) for part in entry.parts[:-1])
            path = "/".join(entry.parts)
            if is_hidden or not stat.S_ISREG(entry.stat.st_mode) or before.get(path) == _stamp(entry.stat):
                continue
            if len(files) == MAX_MADE or entry.stat.st_size > most_bytes:
                left_out.append(path)
            elif (content := read_file(entry.name, most_bytes, entry.folder)) is not None:
                files["_".join(entry.parts)] = content
                most_bytes -= len(content)
    return Made(files, tuple(left_out))


def _stamp(status: os.stat_result) -> tuple[int, int]:
    return status.st_mtime_ns, status.st_size
