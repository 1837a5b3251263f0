"""Files are deleted after the days that their server keeps them; all others stay."""

import pytest

from agent.queue.maintenance.retention import remove_expired_files
from agent.queue.maintenance.steps import Steps
from shared.clock import SystemClock
from shared.errors import NotFound
from tests.support.parley import Parley


async def test_the_files_of_a_server_expire_after_its_days(parley: Parley) -> None:
    steps, storage = Steps(parley.app.database, SystemClock(), pause_factor=0), parley.app.files.storage
    for server in ("strict", "lax", None):
        key = f"inbox/{server}.txt"
        await storage.put(key, b"hello", "text/plain")
        await parley.ask("keep this", server=server, attachments=[parley.attach("a.txt", key, size=5)])
    await parley.sql("UPDATE file_records SET created_at = now() - interval '31 days' WHERE minio_key LIKE '%'")
    servers = "INSERT INTO servers (platform, platform_server_id, files_kept_days) VALUES ('test', :name, :days)"
    for name, days in (("strict", 30), ("lax", 32)):
        await parley.sql(f"{servers} ON CONFLICT DO NOTHING", name=name, days=days)

    assert await remove_expired_files(steps, storage) == 1
    assert await remove_expired_files(steps, storage) == 0

    keys = [row.minio_key for row in await parley.sql("SELECT minio_key FROM file_records ORDER BY id")]
    assert keys == ["inbox/lax.txt", "inbox/None.txt"]
    with pytest.raises(NotFound):
        await storage.size("inbox/strict.txt")
    assert await storage.size("inbox/lax.txt") == 5
