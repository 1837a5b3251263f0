"""The folder with Parley's data: who may read it, and the secrets that are made in it."""

import os
import stat
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile


def make_private(folder: Path) -> None:
    """Make a folder, or take the rights of others from one of ours that is there, and from the folders in it.

    A folder that other programs use, too, is left as it is: one such as /tmp, or one with somebody's home in it. The
    group that may pass it keeps that right where root runs the database as another user.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if Path.home().is_relative_to(folder.resolve()):
        return
    for private_folder in (folder, *(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())):
        status = private_folder.stat()
        mode = status.st_mode & (0o7710 if os.geteuid() == 0 else 0o7700)
        is_ours = status.st_uid == os.geteuid() and not status.st_mode & stat.S_ISVTX
        if is_ours and stat.S_IMODE(status.st_mode) != mode:
            private_folder.chmod(mode)


def make_secret(path: Path) -> str:
    """Return the secret in a file; where there is none yet, make one of 32 random bytes that only its owner reads."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        # Whole or not at all: of two programs that start together, none may read what the other has only opened.
        with NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}-") as draft:
            # 32 random bytes, as text that survives a copy into a header.
            draft.write(os.urandom(32).hex())
            draft.flush()
            with suppress(FileExistsError):
                os.link(draft.name, path)
    return path.read_text().strip()
