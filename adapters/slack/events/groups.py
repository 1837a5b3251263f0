"""Membership in Slack's user groups, for `role_grants`; cached in Postgres and shared by all processes."""

import asyncio
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from adapters.slack.transport.api import Json, Refused
from shared.db.batching import BatchLoader
from shared.db.statements import load_statements
from shared.errors import Unavailable
from shared.log import get_logger

statements = load_statements(__file__)

if TYPE_CHECKING:
    from slack_bolt.async_app import AsyncApp

    from adapters.slack.transport.clients import Clients
    from shared.clock import Clock
    from shared.db.database import Database

# Events report changes; groups are read again for those that happened while no process listened.
FRESH_SECONDS = 900
# Seconds to wait when Slack rate-limits, and in all: an event is acknowledged within three seconds.
MAX_WAIT, ASK_SECONDS = 0.5, 1.2
# After a failure the cached groups are used for this long, so that not every message waits for Slack.
RETRY_SECONDS = 5.0


log = get_logger()


class Groups:
    """The user groups of all workspaces that have role grants."""

    def __init__(self, database: "Database", clients: "Clients", clock: "Clock") -> None:
        self._database, self._clients, self._clock = database, clients, clock
        self._rows = BatchLoader(self._find_rows)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._retry_at: dict[str, float] = {}

    async def find(self, team_id: str, account: str, *, home: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """Return ids and names of a member's groups; None while they are unknown because Slack can't be reached.

        A guest, whose `home` is another workspace, is in no group of this one.
        """
        if home != team_id:
            return (), ()
        row = await self._rows.load((team_id, account))
        if not row.has_grants:
            return (), ()
        if not row.is_fresh:
            # Concurrent callers share one request.
            async with self._locks.setdefault(team_id, asyncio.Lock()):
                row = await self._rows.load((team_id, account))
                if not row.is_fresh and await self._refresh(team_id, row.changes):
                    row = await self._rows.load((team_id, account))
        return (tuple(row.ids), tuple(row.names)) if row.is_known else None

    async def _find_rows(self, members: Sequence[tuple[str, str]]) -> Sequence[Any]:
        teams, accounts = [team_id for team_id, _ in members], [account for _, account in members]
        parameters = {"team_ids": teams, "accounts": accounts, "fresh": FRESH_SECONDS}
        async with self._database.statement() as session:
            return (await session.execute(statements.find_groups, parameters)).all()

    async def _refresh(self, team_id: str, changes: int) -> bool:
        if self._clock.monotonic() < self._retry_at.get(team_id, 0.0):
            return False
        groups: list[Json] = []
        try:
            web = await self._clients.get(team_id)
            try:
                async with asyncio.timeout(ASK_SECONDS):
                    response = await web.call("usergroups.list", max_wait=MAX_WAIT, include_users=True)
                groups = response.get("usergroups", [])
            except Refused as error:
                # A workspace without user groups, or an app without the scope to read them, has no members.
                log.warning("slack_groups_refused", team=team_id, cause=str(error))
        except (Unavailable, TimeoutError) as error:
            self._retry_at[team_id] = self._clock.monotonic() + RETRY_SECONDS
            log.warning("slack_groups_unknown", team=team_id, cause=str(error) or "Slack takes too long")
            return False
        members = [
            {"account": str(account), "id": str(group["id"]), "name": str(group.get("name") or group["id"])}
            for group in groups
            for account in group.get("users", ())
        ]
        async with self._database.transaction() as session:
            row = (await session.execute(statements.mark_read, {"team_id": team_id, "changes": changes})).one_or_none()
            if row is not None:
                await session.execute(statements.delete_members, {"list_id": row.id})
                await session.execute(statements.insert_members, {"list_id": row.id, "members": json.dumps(members)})
        return True

    async def change(self, team_id: str, group_id: str, accounts: list[str] | None) -> None:
        """Mark a group as changed and remove members from it at once; `removed=None` means all of them."""
        async with self._database.transaction() as session:
            list_id = (await session.execute(statements.mark_changed, {"team_id": team_id})).scalar_one()
            parameters = {"list_id": list_id, "group_id": group_id, "removed": accounts}
            await session.execute(statements.remove_members, parameters)


def register(bolt: "AsyncApp", groups: Groups) -> None:
    """Register the listeners for changes of user groups."""

    async def members_changed(event: Json, body: Json) -> None:
        accounts = [str(account) for account in event.get("removed_users") or ()]
        await groups.change(_team(event, body), str(event.get("subteam_id")), accounts)

    async def updated(event: Json, body: Json) -> None:
        group = event.get("subteam") or {}
        # A disabled group has no members.
        accounts: list[str] | None = None if group.get("date_delete") else []
        await groups.change(_team(event, body), str(group.get("id")), accounts)

    bolt.event("subteam_members_changed")(members_changed)
    bolt.event("subteam_updated")(updated)
    bolt.event("subteam_created")(updated)


def _team(event: Json, body: Json) -> str:
    return str(body.get("team_id") or event.get("team_id"))
