"""`/admin/backups`: which archives `parley backup` has written, whether they can be restored, and how.

They are made and restored by commands alone: an archive holds the installation's secrets, which no page hands out.
"""

import asyncio
import platform
from pathlib import Path

from starlette.responses import Response
from starlette.routing import Route

from adapters.web.admin.visit import Visit
from adapters.web.texts import say
from shared.backup.records import COMMAND, LAST_BACKUPS, LIST_BACKUPS, judge


async def show_backups(visit: Visit) -> Response:
    """Show the archives and the failures, the newest first."""
    last = await visit.rows(LAST_BACKUPS)
    backups = await visit.rows(LIST_BACKUPS)
    here = [backup for backup in backups if backup.made_at is not None and backup.host == platform.node()]
    level, sentence = judge(last[0]._asdict() if last else None)
    return visit.render(
        "backups/backups.html",
        title=say("admin.backups"),
        level=level,
        sentence=sentence,
        last=last[0] if last else None,
        backups=backups,
        gone=await asyncio.to_thread(lambda: {backup.id for backup in here if not Path(backup.path).is_file()}),
        command=COMMAND,
    )


ROUTES = (Route("/admin/backups", show_backups),)
