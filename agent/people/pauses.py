"""People and servers that an admin has paused: they get one sentence, and no model is asked."""

from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.errors import Refusal
from shared.messages import Place

statements = load_statements(__file__)


class PersonPaused(Refusal):
    """An admin has paused me for you. What you write now is not answered; an admin can end that."""

    code = "paused"


class ServerPaused(Refusal):
    """An admin has paused me on this server. What is written now is not answered; an admin can end that."""

    code = "paused"


async def find_pause(session: Session, place: Place, *, is_person_paused: bool) -> Refusal | None:
    """Return what is said instead of a call that belongs to no turn; None where neither person nor server is paused."""
    parameters = {"platform": place.platform, "server": place.server}
    if is_person_paused or (await session.execute(statements.find_paused_server, parameters)).one_or_none() is not None:
        return to_refusal(is_person_paused=is_person_paused)
    return None


def to_refusal(*, is_person_paused: bool) -> Refusal:
    """Return what a paused person is told, or one on a paused server."""
    return PersonPaused() if is_person_paused else ServerPaused()
