"""The folders of the chat platforms, found by walking, and the migrations that they carry."""

from pathlib import Path

import adapters


def list_folders() -> dict[str, Path]:
    """Return the folders of the platforms by name."""
    folders = [folder for path in adapters.__path__ for folder in Path(path).iterdir()]
    return {
        folder.name: folder
        for folder in sorted(folders, key=lambda each: each.name)
        if (folder / "platform.py").is_file()
    }


def list_migrations() -> dict[str, Path]:
    """Return the folders with the migrations of those platforms that have tables of their own, by name."""
    found = {name: folder / "migrations" for name, folder in list_folders().items()}
    return {name: folder for name, folder in found.items() if folder.is_dir()}
