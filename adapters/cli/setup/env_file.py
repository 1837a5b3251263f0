"""Writing of `.env`: whole or not at all, readable by its owner alone."""

import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from dotenv import dotenv_values, set_key

from shared.errors import ConfigurationError


def write_env(path: Path, values: Mapping[str, str]) -> None:
    """Set these variables in the file, which is made if it is missing; every other line stays as it is.

    Raises `ConfigurationError` when it can't be written, or a value would be read as another one.
    """
    path = path.resolve()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # In the same folder, because a file can be renamed within one file system only.
        with TemporaryDirectory(dir=path.parent, prefix=".env-") as folder:
            draft = Path(folder) / "draft"
            draft.touch(0o600)
            if path.exists():
                draft.write_text(path.read_text("utf-8"), "utf-8")
            for name, value in values.items():
                set_key(draft, name, value, quote_mode="auto")
            variables = dotenv_values(draft)
            if wrong := [name for name, value in values.items() if variables.get(name) != value]:
                raise ConfigurationError(f"{wrong[0]}: ${{…}} in a value means another variable in {path}.")
            draft.chmod(0o600)
            with draft.open("rb") as file:
                os.fsync(file.fileno())
            draft.replace(path)
    except OSError as error:
        raise ConfigurationError(f"{path} can't be written: {error.strerror}.") from None
