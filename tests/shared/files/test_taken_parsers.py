"""Parsers that a file has taken over: what they answer is a stranger's, too."""

import pytest

from shared.db.database import Database
from shared.files.images import Images
from shared.files.recordings import measure
from shared.files.storage import Storage
from tests.support.filing import add_user
from tests.support.taken_parsers import TakenSandbox


async def test_an_answer_that_is_no_image_or_length_is_none(
    storage: Storage, database: Database, subtests: pytest.Subtests
) -> None:
    for output in (b"", b"x", b"nan", b"-inf", b"-7", b"0"):
        with subtests.test(repr(output)):
            storage.sandbox = TakenSandbox(output)
            files = storage.of_user(database, await add_user(database), None)
            file = await files.create("a.png", b"content")

            assert await Images(storage).show(await files.find_content(file.file_id)) is None
            assert await measure(files, b"content") is None
