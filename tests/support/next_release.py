"""A made-up next release: the migrations of this one, and one more."""

import shutil
from pathlib import Path

from shared.db.migrations import VERSIONS, newest_revision

NEXT = "0199"
REVISION = '''"""A made-up migration."""

from alembic import op

revision = "{revision}"
down_revision = "{before}"


def upgrade() -> None:
    """Change the tables."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.get_bind().exec_driver_sql({statements!r})
    with op.get_context().autocommit_block():
        op.execute("CREATE INDEX CONCURRENTLY ix_made_up ON users (id)")
'''


def write_next_release(folder: Path, statements: str) -> Path:
    """Return a folder with the migrations of today, and one that runs these and makes an index beside programs."""
    versions = folder / "versions"
    shutil.copytree(VERSIONS, versions, ignore=shutil.ignore_patterns("__pycache__"))
    text = REVISION.format(revision=NEXT, before=newest_revision(), statements=statements)
    (versions / f"{NEXT}_made_up.py").write_text(text, "utf-8")
    return versions
