"""A storage over a folder, and a person whose files are in it."""

from pathlib import Path

import pytest

from shared.database import Database
from shared.folder import FolderStore
from shared.storage import Storage
from tests.shared.filing import add_user


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(FolderStore(tmp_path / "files"), "http://here", ("secret",))


@pytest.fixture
async def user_id(database: Database) -> int:
    return await add_user(database)
