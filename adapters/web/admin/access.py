"""Who may see the admin pages: an admin or owner with a session, at an address that is ours."""

from msgspec import Struct
from starlette.requests import Request

from adapters.web.guard import app_of, is_ours
from adapters.web.login.forms import to_form_token
from adapters.web.login.sessions import find_session
from adapters.web.page.chat import PLATFORM
from agent.people.participants import ResolvedUser, find_user
from shared.messages import Permission, Sender


class Admin(Struct, frozen=True):
    """Who looks at the pages.

    `account` is how the log of changes names them; `token` stands in each form and belongs to this session.
    """

    user: ResolvedUser
    account: str
    token: str
    has_fresh_login: bool


async def find_admin(request: Request) -> Admin | None:
    """Return the admin or owner whose browser asks, None for anybody else and at an address that is not ours."""
    app, web_session = app_of(request), await find_session(request)
    if web_session is None or not is_ours(app, request.headers.get("host", "")):
        return None
    who = web_session.account
    async with app.database.transaction() as session:
        user = await find_user(session, Sender(PLATFORM, who))
    if user is None or not user.may(Permission.ADMIN):
        return None
    token = to_form_token(app, web_session)
    return Admin(user, f"{PLATFORM}:{who}", token=token, has_fresh_login=web_session.has_fresh_login)
