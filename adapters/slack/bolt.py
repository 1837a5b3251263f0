"""The library's app, on which each part registers its listeners.

Its checks are switched off where we have our own: signatures (`http.py`), our own messages (`events.py`), and
`auth.test` for every workspace (`clients.py` calls it once). An event is acknowledged when its listener returns; if the
listener fails it is not, and Slack sends the event again.
"""

import re
from typing import TYPE_CHECKING, Any

from slack_bolt.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.response import BoltResponse

from adapters.base import Running
from adapters.slack.events.events import Events, register
from adapters.slack.events.incoming import PLATFORM
from adapters.slack.install import uninstall
from adapters.slack.install.uninstall import Uninstall
from adapters.slack.interactions import interactions
from adapters.slack.transport.clients import Clients, quiet
from shared.errors import ServerMoved, Unavailable
from shared.log import get_logger
from shared.messages import Place

if TYPE_CHECKING:
    from adapters.cells.routes import Cells
    from adapters.slack.install.installations import Installations
    from agent.app import App

log = get_logger()
ANYTHING = re.compile(r".*")
# What could not be done just now is answered with the one, what failed with the other: Slack repeats both.
REFUSED, FAILED = 503, 500


def build_app(
    app: "App",
    clients: Clients,
    running: Running,
    *,
    events: Events,
    installations: "Installations | None" = None,
    cells: "Cells | None" = None,
) -> AsyncApp:
    """Return the library's app with all our listeners; with `cells`, for the workspaces in that of `app`."""

    async def authorize(enterprise_id: str | None, team_id: str | None) -> Any:
        # What an organisation sends names no workspace: that of the settings' token is not meant.
        if team_id is None:
            return None
        if (token := await clients.find_token(team_id)) is None:
            if cells is not None:
                # It may just have gone from here.
                await cells.check(Place(PLATFORM, team_id, ""), app)
            return None
        own = {"team_id": token.team_id, "bot_id": token.bot_id, "bot_user_id": token.bot_user_id}
        return AuthorizeResult(enterprise_id=enterprise_id, bot_token=token.secret.get_secret_value(), **own)

    bolt = AsyncApp(
        name="parley",
        logger=quiet,
        client=clients.library_client(),
        authorize=authorize,
        process_before_response=True,
        request_verification_enabled=False,
        ignoring_self_events_enabled=False,
        ssl_check_enabled=False,
        attaching_function_token_enabled=False,
        attaching_conversation_kwargs_enabled=False,
    )
    register(bolt, events)
    interactions.register(bolt, app, clients, running=running, events=events)
    if installations is not None:
        uninstall.register(bolt, Uninstall(clients, installations))

    async def ignore(event: dict[str, Any]) -> None:
        return

    # Events without a listener are acknowledged, too; otherwise Slack would repeat them.
    bolt.event(ANYTHING)(ignore)
    bolt.error(on_error)
    return bolt


async def on_error(error: Exception, body: dict[str, Any]) -> BoltResponse:
    """Refuse what could not be accepted."""
    if isinstance(error, ServerMoved):
        # The next cell is asked.
        raise error
    # Without an acknowledgement Slack sends the event again, to this process or another.
    event = body.get("event")
    kind = str((event.get("type") if isinstance(event, dict) else None) or body.get("type") or body.get("command"))
    if isinstance(error, Unavailable):
        log.warning("slack_event_not_accepted", kind=kind, cause=str(error.__cause__ or error))
        return BoltResponse(status=REFUSED)
    log.error("slack_event_failed", kind=kind, exc_info=error)
    return BoltResponse(status=FAILED)
