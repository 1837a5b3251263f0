"""Workspaces that have installed the app: their tokens, kept encrypted in Postgres."""

from dataclasses import dataclass
from typing import Literal

from pydantic import SecretStr
from sqlalchemy import text

from adapters.slack.install.vault import TokenUnreadable, Vault
from adapters.slack.transport.api import Token
from shared.clock import Clock
from shared.db.database import Database
from shared.db.driver import Session
from shared.log import get_logger

# Another process may have taken a workspace in, or out.
KEPT_SECONDS = 5.0

REMEDY = "put the old key behind the new one (SECRET_KEY=new,old), or install the app there again"

Because = Literal["uninstalled", "revoked", "removed"]

SAVE = text("""
WITH known AS (
    INSERT INTO servers (platform, platform_server_id, name) VALUES ('slack', :team_id, :team_name)
    ON CONFLICT (platform, platform_server_id) DO UPDATE SET name = coalesce(excluded.name, servers.name)
)
INSERT INTO slack_installations (team_id, team_name, enterprise_id, app_id, bot_id, bot_user_id, scopes, token,
                                 installed_by)
VALUES (:team_id, :team_name, :enterprise_id, :app_id, :bot_id, :bot_user_id, :scopes, :token, :installed_by)
ON CONFLICT (team_id) DO UPDATE SET team_name = excluded.team_name, enterprise_id = excluded.enterprise_id,
    app_id = excluded.app_id, bot_id = excluded.bot_id, bot_user_id = excluded.bot_user_id, scopes = excluded.scopes,
    token = excluded.token, installed_by = excluded.installed_by, installed_at = now(), ended_at = NULL,
    ended_because = NULL
""")
FIND = text("""
SELECT team_id, team_name, bot_id, bot_user_id, token FROM slack_installations
WHERE team_id = :team_id AND token IS NOT NULL
""")
# The token that was refused, and no newer one: the workspace may have installed the app again meanwhile.
END = text("""
UPDATE slack_installations SET token = NULL, ended_at = now(), ended_because = :because
WHERE team_id = :team_id AND token = :token RETURNING id
""")
WIPE = text("""
UPDATE slack_installations SET token = NULL, ended_at = now(), ended_because = :because
WHERE team_id = :team_id AND token IS NOT NULL
""")
LOCKED = text("SELECT team_id, token FROM slack_installations WHERE token IS NOT NULL ORDER BY id FOR UPDATE")
CHANGE = text("UPDATE slack_installations SET token = :token WHERE team_id = :team_id")

log = get_logger()


@dataclass(frozen=True, slots=True)
class Installed:
    """What Slack tells of an installation."""

    team_id: str
    team_name: str | None
    bot_user_id: str
    token: SecretStr
    bot_id: str | None = None
    enterprise_id: str | None = None
    app_id: str | None = None
    scopes: str = ""
    installed_by: str | None = None


@dataclass(frozen=True, slots=True)
class _Kept:
    locked: str
    token: Token
    until: float


class Installations:
    """The tokens of the table, for a moment also in memory."""

    def __init__(self, database: Database, vault: Vault, clock: Clock) -> None:
        self._database, self._vault, self._clock = database, vault, clock
        self._kept: dict[str, _Kept] = {}
        self._unreadable: set[str] = set()

    async def find(self, team_id: str | None) -> Token | None:
        """Return a workspace's token, None when the app is not installed there.

        Raises `TokenUnreadable` when its key is lost; other workspaces go on.
        """
        if team_id is None:
            return None
        kept = self._kept.get(team_id)
        if kept is not None and kept.until > self._clock.monotonic():
            return kept.token
        async with self._database.statement() as session:
            row = (await session.execute(FIND, {"team_id": team_id})).one_or_none()
        if row is None:
            self._kept.pop(team_id, None)
            return None
        secret = SecretStr(self._unlock(team_id, row.token))
        token = Token(secret, row.team_id, row.bot_user_id, row.bot_id, row.team_name)
        self._kept[team_id] = _Kept(row.token, token, self._clock.monotonic() + KEPT_SECONDS)
        return token

    def _unlock(self, team_id: str, locked: str) -> str:
        try:
            return self._vault.unlock(team_id, locked)
        except TokenUnreadable as error:
            if team_id not in self._unreadable:
                log.error("slack_token_unreadable", team=team_id, cause=str(error), remedy=REMEDY)
                self._unreadable.add(team_id)
            raise

    async def save(self, installed: Installed) -> None:
        """Keep an installation; one that was there before is replaced."""
        given = {
            "team_id": installed.team_id,
            "team_name": installed.team_name,
            "enterprise_id": installed.enterprise_id,
            "app_id": installed.app_id,
            "bot_id": installed.bot_id,
            "bot_user_id": installed.bot_user_id,
            "scopes": installed.scopes,
            "token": self._vault.lock(installed.team_id, installed.token.get_secret_value()),
            "installed_by": installed.installed_by,
        }
        async with self._database.statement() as session:
            await session.execute(SAVE, given)
        self._kept.pop(installed.team_id, None)
        self._unreadable.discard(installed.team_id)
        log.info("slack_installed", team=installed.team_id, by=installed.installed_by)

    async def end(self, token: Token, because: Because) -> bool:
        """Wipe a token that Slack takes no more; returns False when a newer one has taken its place."""
        team_id = token.team_id
        async with self._database.statement() as session:
            row = (await session.execute(FIND, {"team_id": team_id})).one_or_none()
            if row is None or self._unlock(team_id, row.token) != token.secret.get_secret_value():
                return False
            given = {"team_id": team_id, "token": row.token, "because": because}
            ended = (await session.execute(END, given)).one_or_none() is not None
        self._kept.pop(team_id, None)
        if ended:
            log.warning("slack_installation_ended", team=team_id, because=because)
        return ended

    async def wipe(self, team_id: str, because: Because) -> None:
        """Wipe a token that nobody can read any more."""
        async with self._database.statement() as session:
            await session.execute(WIPE, {"team_id": team_id, "because": because})
        self._unreadable.discard(team_id)
        log.warning("slack_installation_ended", team=team_id, because=because)


async def rotate(session: Session, vault: Vault) -> tuple[int, list[str]]:
    """Encrypt every token with the newest key; return how many, and the workspaces whose key is lost."""
    lost: list[str] = []
    rows = (await session.execute(LOCKED)).all()
    for row in rows:
        try:
            token = vault.unlock(row.team_id, row.token)
        except TokenUnreadable:
            lost.append(row.team_id)
            continue
        await session.execute(CHANGE, {"team_id": row.team_id, "token": vault.lock(row.team_id, token)})
    return len(rows) - len(lost), lost
