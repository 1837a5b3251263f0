"""The folders of the chat platforms, found by walking."""

from pathlib import Path

import adapters


def list_folders() -> dict[str, Path]:
    """Return the folders of the platforms by name."""
    folders = [folder for path in adapters.__path__ for folder in Path(path).iterdir()]
    return {
        folder.name: folder
        for folder in sorted(folders, key=lambda folder: folder.name)
        if (folder / "platform.py").is_file()
    }
