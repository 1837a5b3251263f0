"""How much all files of a person may take together."""

from collections.abc import Mapping

from msgspec import Struct

from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.files.stores.content import MEGABYTE

statements = load_statements(__file__)

GUEST = "guest"
QUOTAS: Mapping[str, int] = {GUEST: 100 * MEGABYTE, "user": 500 * MEGABYTE}


class Quota(Struct, frozen=True):
    """What all files of a user may take together, and what they take now, in bytes."""

    limit: int
    used: int

    @property
    def free(self) -> int:
        """Return the bytes that are left; below 0 when the limit was higher before."""
        return self.limit - self.used


async def read_quota(session: Session, user_id: int, quotas: Mapping[str, int]) -> Quota:
    """Return the quota of a user; files that are being stored count as used."""
    row = (await session.execute(statements.read_quota, {"user_id": user_id})).one()
    # A level without a quota of its own has that of a guest.
    return Quota(quotas.get(row.level, quotas[GUEST]), int(row.used))
