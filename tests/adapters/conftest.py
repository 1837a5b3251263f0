"""What the tests of all adapters share."""

from collections.abc import AsyncIterator

import pytest

from tests.support.shared import Shared


@pytest.fixture(scope="session")
async def shared() -> AsyncIterator[Shared]:
    async with Shared() as shared:
        yield shared
