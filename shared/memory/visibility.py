"""Which memories a turn may see: row-level security decides it, by the person and place that a transaction names."""

from msgspec import Struct

from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.messages import Place

statements = load_statements(__file__)

SETTINGS = ("user_id", "platform", "server", "channel", "thread", "is_direct")


class Visibility(Struct, frozen=True):
    """A person and a place: in a direct message all that is the person's own is visible, elsewhere what belongs there.

    Without a server, a channel counts as one.
    """

    user_id: int
    place: Place

    @property
    def settings(self) -> dict[str, str]:
        """Return the settings that row-level security compares, by name."""
        place = self.place
        return {
            "user_id": str(self.user_id),
            "platform": place.platform,
            "server": place.server or place.channel,
            "channel": place.channel,
            "thread": place.thread or "",
            "is_direct": "true" if place.is_direct else "false",
        }


async def act_in(session: Session, visibility: Visibility) -> None:
    """Restrict row-level security to what this person may see in this place, until the transaction ends."""
    await session.execute(statements.act_as, visibility.settings)


async def act_for(session: Session, user_id: int) -> None:
    """Restrict row-level security to what is this person's own, for work in the background, which has no place."""
    await session.execute(statements.act_as, dict.fromkeys(SETTINGS, "") | {"user_id": str(user_id)})
