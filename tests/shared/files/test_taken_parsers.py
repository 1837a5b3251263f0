"""Parsers that a file has taken over: what they answer is a stranger's, too."""

from dataclasses import replace
from pathlib import Path

import pytest

from shared.db.database import Database
from shared.files import images, recordings
from shared.files.images import Images
from shared.files.storage import Storage
from tests.support.filing import add_user


@pytest.mark.parametrize("output", [b"", b"x", b"nan", b"-inf", b"-7", b"0"])
async def test_an_answer_that_is_no_image_or_length_is_none(
    storage: Storage, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: bytes
) -> None:
    (tmp_path / "taken.py").write_text(f"import sys\nsys.stdin.read()\nsys.stdout.buffer.write({output!r})")
    for module, name in ((images, "RESIZER"), (recordings, "MEASURE")):
        monkeypatch.setattr(module, name, replace(getattr(module, name), path=tmp_path / "taken.py"))
    files = storage.of_user(database, await add_user(database), None)
    file = await files.create("a.png", b"content")

    assert await Images(storage).show(await files.find_content(file.file_id)) is None
    assert await recordings.measure(files, b"content") is None
