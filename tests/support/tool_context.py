"""A tool context over a real database, for tests that call a module's tools as the toolbox does."""

from pathlib import Path

from shared.clock import Clock, SystemClock
from shared.db.database import Database
from shared.files.storage import Storage
from shared.files.stores.folder import FolderStore
from shared.http.client import GuardedClient
from shared.memory.memories import Memories
from shared.messages import Caller, Permission, Place
from shared.settings import Settings
from shared.tools import ToolContext
from tests.support.filing import add_user
from tests.support.tool_calls import bare_context

HOME = Place("discord", None, "dm-1", is_direct=True)


async def make_tool_context(
    database: Database, files: Path, module: str, permission: Permission = Permission.GUEST, clock: Clock | None = None
) -> ToolContext:
    """Return the context of a new user's call in direct messages; the files of all users are in one folder."""
    user_id, settings = await add_user(database), Settings()
    clock = clock or SystemClock()
    return bare_context(
        module,
        user=Caller(user_id, permission, "Ada"),
        place=HOME,
        clock=clock,
        http=GuardedClient(settings),
        storage=Storage(FolderStore(files), "http://here", ("secret",)).of_user(database, user_id, None),
        memory=Memories(database, settings, clock).of_user(user_id, HOME, None),
        database=database,
        app_settings=settings,
    )
