"""How much all files of a person may take together."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.files.stores.content import MEGABYTE
from shared.models.files import FileRecord
from shared.models.people import User

GUEST = "guest"
QUOTAS: Mapping[str, int] = {GUEST: 100 * MEGABYTE, "user": 500 * MEGABYTE}
# A file that is pending for longer was lost in a crash, and no longer counts against the quota.
PENDING_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Quota:
    """What all files of a user may take together, and what they take now, in bytes."""

    limit: int
    used: int

    @property
    def free(self) -> int:
        """Return the bytes that are left; below 0 when the limit was higher before."""
        return self.limit - self.used


async def read_quota(session: AsyncSession, user_id: int, quotas: Mapping[str, int]) -> Quota:
    """Return the quota of a user; files that are being stored count as used."""
    recent = func.now() - func.make_interval(0, 0, 0, 0, 0, 0, PENDING_SECONDS)
    total = select(func.coalesce(func.sum(FileRecord.size_bytes), 0)).where(
        FileRecord.user_id == user_id,
        or_(FileRecord.status == "stored", (FileRecord.status == "pending") & (FileRecord.created_at > recent)),
    )
    permission = func.parley_permission(User.permission_level, User.permission_until, User.permission_after)
    level = select(permission).where(User.id == user_id)
    row = (
        await session.execute(select(level.scalar_subquery().label("level"), total.scalar_subquery().label("used")))
    ).one()
    # A level without a quota of its own has that of a guest.
    return Quota(quotas.get(row.level, quotas[GUEST]), int(row.used))
