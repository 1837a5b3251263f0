"""Fixtures: a storage in a temporary folder, and a user."""

from pathlib import Path

import pytest

from shared.db.database import Database
from shared.files.storage import Storage
from shared.files.stores.folder import FolderStore
from tests.support.filing import add_user


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(FolderStore(tmp_path / "files"), "http://here", ("secret",))


@pytest.fixture
async def user_id(database: Database) -> int:
    return await add_user(database)
