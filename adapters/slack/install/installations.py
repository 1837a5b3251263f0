"""The workspaces that have installed the app, with their tokens, encrypted in Postgres."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from pydantic import SecretStr

from adapters.slack.transport.token import Token
from shared.clock import Clock
from shared.credentials import vault
from shared.db.database import Database
from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.errors import ServerMoved, Unavailable
from shared.log import get_logger

statements = load_statements(__file__)

# Short, because another process may change the table.
CACHE_SECONDS = 5.0

REMEDY = "put the old key behind the new one (SECRET_KEY=new,old), or install the app there again"

EndReason = Literal["uninstalled", "revoked", "removed"]
PURPOSE = b"parley slack tokens"


log = get_logger()


class TokenUnreadable(Unavailable):
    """The token of the Slack workspace {team} was encrypted with another SECRET_KEY; install the app there again."""

    code = "token_unreadable"


class Vault(vault.Vault):
    """The vault of the workspaces' tokens."""

    def __init__(self, secret_keys: Sequence[str]) -> None:
        super().__init__(secret_keys, PURPOSE)

    def decrypt(self, owner: str, encrypted: str) -> str:
        """Return the token; raises `TokenUnreadable` if no key fits, or it belongs to another workspace."""
        try:
            return super().decrypt(owner, encrypted)
        except vault.Undecryptable:
            raise TokenUnreadable(team=owner) from None


class Installed(Struct, frozen=True):
    """An installation as Slack describes it."""

    team_id: str
    team_name: str | None
    bot_user_id: str
    token: SecretStr
    bot_id: str | None = None
    enterprise_id: str | None = None
    app_id: str | None = None
    scopes: str = ""
    installed_by: str | None = None


class _Cached(Struct, frozen=True):
    encrypted: str
    token: Token
    until: float


class Installations:
    """Reads and writes the table, with a short cache in memory."""

    def __init__(self, database: Database, vault: Vault, clock: Clock) -> None:
        self._database, self._vault, self._clock = database, vault, clock
        self._cached: dict[str, _Cached] = {}
        self._unreadable: set[str] = set()

    def forget(self, table: str | None) -> None:
        """Read the tokens again if their table has changed, or may have: None."""
        if table in (None, "slack_installations"):
            self._cached.clear()

    async def find(self, team_id: str | None) -> Token | None:
        """Return a workspace's token, None if the app is not installed there.

        Raises `TokenUnreadable` if no key decrypts it.
        """
        if team_id is None:
            return None
        cached = self._cached.get(team_id)
        if cached is not None and cached.until > self._clock.monotonic():
            return cached.token
        async with self._database.statement() as session:
            row = (await session.execute(statements.find_installation, {"team_id": team_id})).one_or_none()
        if row is None:
            self._cached.pop(team_id, None)
            return None
        secret = SecretStr(self._decrypt(team_id, row.token))
        token = Token(secret, row.team_id, row.bot_user_id, bot_id=row.bot_id, team_name=row.team_name)
        self._cached[team_id] = _Cached(row.token, token, self._clock.monotonic() + CACHE_SECONDS)
        return token

    def _decrypt(self, team_id: str, encrypted: str) -> str:
        try:
            return self._vault.decrypt(team_id, encrypted)
        except TokenUnreadable as error:
            if team_id not in self._unreadable:
                log.error("slack_token_unreadable", team=team_id, cause=str(error), remedy=REMEDY)
                self._unreadable.add(team_id)
            raise

    async def save(self, installed: Installed) -> None:
        """Store an installation, replacing an earlier one of the workspace.

        Raises `ServerMoved` where that has left this cell.
        """
        parameters = {
            "team_id": installed.team_id,
            "team_name": installed.team_name,
            "enterprise_id": installed.enterprise_id,
            "app_id": installed.app_id,
            "bot_id": installed.bot_id,
            "bot_user_id": installed.bot_user_id,
            "scopes": installed.scopes,
            "token": self._vault.encrypt(installed.team_id, installed.token.get_secret_value()),
            "installed_by": installed.installed_by,
        }
        async with self._database.transaction() as session:
            # Who moves the workspace waits, as for a message that is being stored: the row goes along.
            await session.execute(statements.hold_moves)
            if (await session.execute(statements.has_left, {"team_id": installed.team_id})).scalar_one():
                raise ServerMoved
            await session.execute(statements.store_installation, parameters)
        self._cached.pop(installed.team_id, None)
        self._unreadable.discard(installed.team_id)
        log.info("slack_installed", team=installed.team_id, by=installed.installed_by)

    async def end(self, token: Token, because: EndReason) -> bool:
        """Delete a token that Slack refuses; return False if the table holds a newer one."""
        team_id = token.team_id
        async with self._database.statement() as session:
            row = (await session.execute(statements.find_installation, {"team_id": team_id})).one_or_none()
            if row is None or self._decrypt(team_id, row.token) != token.secret.get_secret_value():
                return False
            parameters = {"team_id": team_id, "token": row.token, "because": because}
            ended = (await session.execute(statements.end_installation, parameters)).one_or_none() is not None
        self._cached.pop(team_id, None)
        if ended:
            log.warning("slack_installation_ended", team=team_id, because=because)
        return ended

    async def wipe(self, team_id: str, because: EndReason) -> None:
        """Delete a token that no key decrypts."""
        async with self._database.statement() as session:
            await session.execute(statements.wipe_token, {"team_id": team_id, "because": because})
        self._unreadable.discard(team_id)
        log.warning("slack_installation_ended", team=team_id, because=because)


async def rotate(session: Session, vault: Vault) -> tuple[int, list[str]]:
    """Encrypt every token with the newest key; return how many, and the workspaces whose tokens no key decrypts."""
    lost: list[str] = []
    rows = (await session.execute(statements.list_tokens)).all()
    for row in rows:
        try:
            token = vault.decrypt(row.team_id, row.token)
        except TokenUnreadable:
            lost.append(row.team_id)
            continue
        await session.execute(
            statements.replace_token, {"team_id": row.team_id, "token": vault.encrypt(row.team_id, token)}
        )
    return len(rows) - len(lost), lost
