"""One resource at a time, as the operator applies it: what became of its row."""

import asyncio
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import asdict

from adapters.kubernetes.manifests import Manifest, read_manifest
from adapters.kubernetes.plans import Change, apply_one, plan_one
from adapters.kubernetes.rows import delete, list_rows, name_actor
from shared.db.database import Database
from shared.db.errors import refusals
from shared.errors import Refusal


class State(Struct, frozen=True):
    """What became of a resource. `row` tells which row is its; None: none has been.

    `version` is the row's last entry in the log of changes; `drift` has a line for each field that somebody changed.
    """

    state: Literal["applied", "refused", "drifted"]
    message: str | None = None
    row: str | None = None
    version: int | None = None
    drift: tuple[str, ...] = ()

    def to_status(self) -> dict[str, Any]:
        """Return the fields of the resource's status."""
        return {**asdict(self), "drift": list(self.drift)}


class Resources(Struct, frozen=True):
    """The rows of resources; `actor` is written into the log of changes."""

    database: Database
    actor: str
    # At a start all resources come at once; more would only wait for a connection, and give up.
    room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(2))

    async def apply(self, document: Mapping[str, Any], *, row: str | None) -> State:
        """Make the row what the resource says; `row` is the one that it had so far, which goes when it is another."""
        try:
            manifest = read_manifest(dict(document))
            with refusals():
                await self._write(manifest, row)
            return await self._read(manifest)
        except Refusal as error:
            return State("refused", str(error), row=row)

    async def inspect(self, document: Mapping[str, Any], *, row: str | None, drifted_version: int | None) -> State:
        """Say whether the row still is what the resource says.

        What the operator itself has written last, and was seen as drift before (`drifted_version`), is written anew:
        two changes of the resource have overtaken each other.
        """
        try:
            state = await self._read(read_manifest(dict(document)))
        except Refusal as error:
            return State("refused", str(error), row=row)
        is_own = state.message == self._to_message(self.actor)
        if state.state == "drifted" and is_own and state.version == drifted_version:
            return await self.apply(document, row=row)
        return state

    async def find_row(self, document: Mapping[str, Any]) -> str | None:
        """Return which row is the resource's although its status does not say so, because the operator ended between.

        It is the one that the operator has written last, and that says what the resource says.
        """
        try:
            manifest = read_manifest(dict(document))
        except Refusal:
            return None
        async with self.room, self.database.transaction() as session:
            row = (await list_rows(session, manifest.kind)).get(manifest.key)
        is_own = row is not None and row.who == self.actor and plan_one(manifest, row).change is Change.SAME
        return manifest.key if is_own else None

    async def remove(self, kind: str, row: str) -> None:
        """Delete the row, unless it is gone already; raises `Refusal` with the database's reason."""
        with refusals():
            async with self.room, self.database.transaction() as session:
                await name_actor(session, self.actor)
                rows = await list_rows(session, kind)
                if row in rows:
                    await delete(session, kind, spec=rows[row].spec, key=row)

    async def _write(self, manifest: Manifest, row: str | None) -> None:
        async with self.room, self.database.transaction() as session:
            await name_actor(session, self.actor)
            rows = await list_rows(session, manifest.kind)
            if row is not None and row in rows and row != manifest.key:
                await delete(session, manifest.kind, spec=rows[row].spec, key=row)
            step = await apply_one(session, manifest, rows.get(manifest.key))
            if step.change is Change.REFUSE:
                # Nothing of it is committed.
                raise Refusal(step.refusal)

    async def _read(self, manifest: Manifest) -> State:
        async with self.room, self.database.transaction() as session:
            rows = await list_rows(session, manifest.kind)
        row = rows.get(manifest.key)
        if row is None:
            message = "the row was deleted; the next change of the resource makes it anew"
            return State("drifted", message, row=manifest.key)
        step = plan_one(manifest, row)
        if step.change is Change.SAME:
            return State("applied", row=manifest.key, version=row.version)
        if step.refusal is not None:
            raise Refusal(step.refusal)
        # Another resource says the same row, in this namespace or by `parley apply`.
        message = step.drift or self._to_message(row.who)
        return State("drifted", message, row=manifest.key, version=row.version, drift=step.differences)

    @staticmethod
    def _to_message(who: str | None) -> str:
        return f"last written by {who}"
