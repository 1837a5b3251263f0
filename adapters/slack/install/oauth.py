"""Installing the app into a workspace with OAuth: `/slack/install`, Slack's page, `/slack/oauth_redirect`."""

import hashlib
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

import aiohttp
from pydantic import SecretStr
from slack_bolt.error import BoltError
from slack_bolt.oauth.async_callback_options import AsyncCallbackOptions, AsyncFailureArgs, AsyncSuccessArgs
from slack_bolt.oauth.async_oauth_flow import AsyncOAuthFlow
from slack_bolt.oauth.async_oauth_settings import AsyncOAuthSettings
from slack_bolt.response import BoltResponse
from slack_sdk.errors import SlackClientError
from slack_sdk.oauth.installation_store import Installation
from slack_sdk.oauth.installation_store.async_installation_store import AsyncInstallationStore
from slack_sdk.oauth.state_store.async_state_store import AsyncOAuthStateStore
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack.install import INSTALL, REDIRECT, SCOPES
from adapters.slack.install.installations import Installations, Installed, Vault
from adapters.slack.settings import SlackSettings
from adapters.slack.transport.clients import API_BASE, Clients, quiet
from adapters.web.notes import NO_STORE, to_note
from agent.app import App
from shared.db.database import Database
from shared.db.statements import load_statements
from shared.errors import ParleyError
from shared.log import get_logger
from shared.messages import Place

statements = load_statements(__file__)

if TYPE_CHECKING:
    from adapters.cells.routes import Cells

STATE_SECONDS = 600
# Relative, because a proxy may serve this under a path prefix.
BEGIN_AGAIN = '<p><a href="install">Begin again</a></p>'
OPEN = '<p><a href="{url}">Open Slack</a></p>'

DONE = "{agent} is in {team} now. Mention it in a channel, or write it a direct message."
REASONS = {
    "access_denied": "You have said no on Slack's page; nothing was installed.",
    "invalid_browser": "This was begun in another browser, or more than ten minutes ago; nothing was installed.",
    "invalid_state": "This was used before, or begun more than ten minutes ago; nothing was installed.",
    "missing_code": "Slack has brought no code; nothing was installed.",
    "invalid_code": "Slack does not accept its code any more; nothing was installed.",
}
OTHER_REASON = "Slack says that it did not work; nothing was installed."
WHOLE_ORGANISATION = "Parley is installed into one workspace, not into a whole organisation; choose a workspace."
ROTATED = "This Slack app exchanges its tokens every few hours, which Parley can't follow; make an app without that."
UNREACHABLE = "Slack can't be reached just now; nothing was installed. Try again in a few minutes."
NO_ADDRESS = "The operator has to set PUBLIC_URL first: Slack brings you back to that address."


log = get_logger()


class NotInstallable(BoltError):
    """A completed installation that can't be accepted; the message is for the person."""


class States(AsyncOAuthStateStore):
    """OAuth states, each valid once; the table contains only their hashes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def async_issue(self, *_args: Any, **_kwargs: Any) -> str:
        """Return a new state."""
        state = token_urlsafe(32)
        async with self._database.statement() as session:
            await session.execute(statements.issue_state, {"hash": _hash(state), "seconds": STATE_SECONDS})
        return state

    async def async_consume(self, state: str) -> bool:
        """Consume a state; return False if it is unknown, used or expired."""
        async with self._database.statement() as session:
            row = (await session.execute(statements.consume_state, {"hash": _hash(state)})).one_or_none()
        return row is not None and bool(row.is_fresh)


def _hash(state: str) -> str:
    return hashlib.sha256(state.encode()).hexdigest()


class Store(AsyncInstallationStore):
    """The library's installation store: a workspace is in that of its cell."""

    def __init__(self, app: App, client: AsyncWebClient, cells: "Cells | None") -> None:
        self._app, self._client, self._cells = app, client, cells

    async def async_save(self, installation: Installation) -> None:
        """Store an installation; raises `NotInstallable` with a message for the person."""
        refusal = None
        if installation.is_enterprise_install or not installation.team_id:
            refusal = WHOLE_ORGANISATION
        elif installation.bot_refresh_token:
            refusal = ROTATED
        elif not installation.bot_token or not installation.bot_user_id:
            refusal = OTHER_REASON
        if refusal is not None:
            # A token that is not stored should not stay valid.
            try:
                await self._client.auth_revoke(token=installation.bot_token)
            except (SlackClientError, aiohttp.ClientError, TimeoutError, OSError) as error:
                log.warning("slack_token_not_given_back", cause=str(error))
            raise NotInstallable(refusal)
        installed = Installed(
            team_id=str(installation.team_id),
            team_name=installation.team_name,
            bot_user_id=str(installation.bot_user_id),
            token=SecretStr(str(installation.bot_token)),
            bot_id=installation.bot_id,
            enterprise_id=installation.enterprise_id,
            app_id=installation.app_id,
            scopes=",".join(installation.bot_scopes or ()),
            installed_by=installation.user_id,
        )
        place = Place("slack", installed.team_id, "")

        async def save(app: App) -> None:
            await Installations(app.database, Vault(app.secrets.secret_keys), app.clock).save(installed)

        await (save(self._app) if self._cells is None else self._cells.use(place, save, is_message=False))


async def answer(
    app: App, settings: SlackSettings, request: Any, *, step: str, cells: "Cells | None" = None
) -> BoltResponse:
    """Answer a browser; `request` is the library's. Any error becomes a page with one sentence."""
    if app.settings.public_url is None:
        log.error("slack_install_impossible", remedy="set PUBLIC_URL")
        return _page("This can't be installed yet", NO_ADDRESS, 503, more="")
    clients = Clients(settings, app.clock)
    try:
        client = clients.library_client()
        secret = settings.client_secret
        flow = AsyncOAuthFlow(
            client=client,
            logger=quiet,
            settings=AsyncOAuthSettings(
                client_id=settings.client_id,
                client_secret=secret.get_secret_value() if secret else None,
                scopes=list(SCOPES),
                user_scopes=[],
                redirect_uri=f"{(app.settings.public_url or '').rstrip('/')}{REDIRECT}",
                install_path=INSTALL,
                install_page_rendering_enabled=False,
                redirect_uri_path=REDIRECT,
                callback_options=AsyncCallbackOptions(_succeeded, _failed),
                # The page is on the same host as the API, which may be GovSlack's or a test's.
                authorization_url=urljoin(settings.api_base or API_BASE, "/oauth/v2/authorize"),
                installation_store=Store(app, client, cells),
                installation_store_bot_only=True,
                state_store=States(app.database),
                state_expiration_seconds=STATE_SECONDS,
                logger=quiet,
            ),
        )
        return await (flow.handle_installation(request) if step == "install" else flow.handle_callback(request))
    except ParleyError as error:
        log.error("slack_install_failed", cause=str(error))
        return _page("It did not work", str(error), 503, more=BEGIN_AGAIN)
    except (SlackClientError, aiohttp.ClientError, TimeoutError, OSError) as error:
        log.error("slack_install_failed", cause=repr(error))
        return _page("It did not work", UNREACHABLE, 503, more=BEGIN_AGAIN)
    finally:
        await clients.aclose()


async def _succeeded(success: AsyncSuccessArgs) -> BoltResponse:
    installation = success.installation
    team = installation.team_name or "your workspace"
    url = f"https://slack.com/app_redirect?app={installation.app_id}&team={installation.team_id}"
    response = _page("Installed", DONE.format(agent="Parley", team=team), 200, more=OPEN.format(url=url))
    response.headers["set-cookie"] = [success.settings.state_utils.build_set_cookie_for_deletion()]
    return response


async def _failed(failure: AsyncFailureArgs) -> BoltResponse:
    reason = REASONS.get(failure.reason, OTHER_REASON)
    if isinstance(failure.error, NotInstallable):
        reason = str(failure.error)
    log.warning("slack_install_refused", reason=failure.reason[:40])
    status = min(400, failure.suggested_status_code)
    return _page("It did not work", reason, status, more=BEGIN_AGAIN)


def _page(title: str, sentence: str, status: int, more: str) -> BoltResponse:
    headers: dict[str, Any] = {"content-type": ["text/html; charset=utf-8"]}
    headers |= {name.lower(): [value] for name, value in NO_STORE.items()}
    return BoltResponse(status=status, body=to_note(title, sentence, more=more), headers=headers)
