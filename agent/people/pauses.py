"""People and servers that an admin has paused: they get one sentence, and no model is asked."""

from sqlalchemy import Label, exists, text
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.sql.elements import ColumnElement

from shared.errors import Refusal
from shared.messages import Place
from shared.models import Server

PAUSED_SERVER = text("""
SELECT id FROM servers WHERE platform = :platform AND platform_server_id = :server AND paused_at IS NOT NULL
""")


class PersonPaused(Refusal):
    """An admin has paused me for you. What you write now is not answered; an admin can end that."""

    code = "paused"


class ServerPaused(Refusal):
    """An admin has paused me on this server. What is written now is not answered; an admin can end that."""

    code = "paused"


def is_server_paused(platform: ColumnElement[str], server: ColumnElement[str]) -> Label[bool]:
    """Return the column that says whether the place's server is paused, for the statement that every turn runs."""
    paused = exists().where(
        Server.platform == platform, Server.platform_server_id == server, Server.paused_at.is_not(None)
    )
    return paused.label("is_server_paused")


async def find_pause(session: AsyncSession, place: Place, *, is_person_paused: bool) -> Refusal | None:
    """Return what is said instead of a call that belongs to no turn; None where neither person nor server is paused."""
    parameters = {"platform": place.platform, "server": place.server}
    if is_person_paused or (await session.execute(PAUSED_SERVER, parameters)).one_or_none() is not None:
        return to_refusal(is_person_paused=is_person_paused)
    return None


def to_refusal(*, is_person_paused: bool) -> Refusal:
    """Return what a paused person is told, or one on a paused server."""
    return PersonPaused() if is_person_paused else ServerPaused()
