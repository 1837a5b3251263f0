"""A tool context over a real database, for tests that call a module's tools as the toolbox does."""

from pathlib import Path

from shared.clock import Clock, SystemClock
from shared.db.database import Database
from shared.files.folder import FolderStore
from shared.files.storage import Storage
from shared.http.client import GuardedClient
from shared.memory.memories import Memories
from shared.messages import Place
from shared.models.user import User
from shared.permissions import Permission
from shared.settings import Settings
from shared.tools import Caller, ToolContext

HOME = Place("discord", None, "dm-1", is_direct=True)


async def make_tool_context(
    database: Database, files: Path, module: str, permission: Permission = Permission.GUEST, clock: Clock | None = None
) -> ToolContext:
    """Return the context of a new user's call in direct messages; the files of all users are in one folder."""
    user = User()
    async with database.transaction() as session:
        session.add(user)
    settings = Settings()
    clock = clock or SystemClock()
    return ToolContext(
        user=Caller(user.id, permission, "Ada"),
        place=HOME,
        conversation_id=1,
        turn_id=1,
        call_id="call-1",
        module=module,
        clock=clock,
        http=GuardedClient(settings),
        storage=Storage(FolderStore(files), "http://here", ("secret",)).of_user(database, user.id, None),
        memory=Memories(database, settings, clock).of_user(user.id, HOME, None),
        database=database,
        app_settings=settings,
    )
