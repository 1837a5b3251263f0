"""What applying manifests would change, and the change: all of it, or, where the database refuses one, nothing."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum

from msgspec import Struct

from adapters.kubernetes.exports import to_manifests
from adapters.kubernetes.manifests import SPECS, Manifest, PersonaSpec
from adapters.kubernetes.rows import APPLY, StoredRow, compare, define, delete, list_rows
from shared.db.driver import NestingSession
from shared.db.errors import refusals
from shared.errors import Refusal


class Change(StrEnum):
    """What becomes of a row."""

    ADD = "+"
    CHANGE = "~"
    SAME = "="
    REMOVE = "-"
    REFUSE = "!"


class Step(Struct, frozen=True):
    """One row of a plan. `differences` has a line for each field, `refusal` is the database's sentence.

    `drift` says who changed the row since a manifest was applied to it.
    """

    change: Change
    kind: str
    name: str
    source: str = ""
    differences: tuple[str, ...] = ()
    drift: str | None = None
    refusal: str | None = None


async def apply_all(session: NestingSession, manifests: Sequence[Manifest], *, removes: bool = False) -> list[Step]:
    """Write what manifests say and return each step; the caller commits, or takes all back.

    After a refusal the other steps are still tried, so that all refusals are told at once. With `removes` rows that
    were last written by `parley apply` and are in none of these are deleted. Raises `Refusal` when two say one row.
    """
    check_rows_are_said_once(manifests)
    steps: list[Step] = []
    gone: list[tuple[str, str, StoredRow]] = []
    for kind in SPECS:
        rows = await list_rows(session, kind)
        wanted = [manifest for manifest in manifests if manifest.kind == kind]
        steps += [await apply_one(session, manifest, rows.get(manifest.key)) for manifest in wanted]
        if removes:
            # By number, because a limit of a person is found by each of their accounts.
            known = {rows[manifest.key].id for manifest in wanted if manifest.key in rows}
            gone += [(kind, key, row) for key, row in rows.items() if row.id not in known and is_from_manifest(row)]
    # What others refer to goes after them.
    for kind, key, row in reversed(gone):
        steps.append(await remove_one(session, kind=kind, key=key, row=row))
    return steps


async def apply_one(session: NestingSession, manifest: Manifest, row: StoredRow | None) -> Step:
    """Write what one manifest says, in a savepoint; a refusal is a step, too."""
    step = plan_one(manifest, row)
    if step.change in {Change.ADD, Change.CHANGE}:
        try:
            async with attempted(session):
                await define(session, manifest)
        except Refusal as error:
            return Step(Change.REFUSE, manifest.kind, manifest.name, source=manifest.source, refusal=str(error))
    return step


def plan_one(manifest: Manifest, row: StoredRow | None) -> Step:
    """Return what applying this manifest to its row would change."""
    kind, name, source = manifest.kind, manifest.name, manifest.source
    if row is None:
        return Step(Change.ADD, kind, name, source=source)
    if row.is_hidden and isinstance(row.spec, PersonaSpec):
        refusal = f"the persona {manifest.key} is an agent's own: change it by the Agent {manifest.key}"
        return Step(Change.REFUSE, kind, name, source=source, refusal=refusal)
    differences = tuple(compare(row.spec, manifest.spec))
    if not differences:
        return Step(Change.SAME, kind, name, source=source)
    drift = f"changed by {row.who} at {row.at:%Y-%m-%d %H:%M}" if row.is_changed_by_others and row.at else None
    return Step(Change.CHANGE, kind, name, source=source, differences=differences, drift=drift)


async def remove_one(session: NestingSession, *, kind: str, key: str, row: StoredRow) -> Step:
    """Delete a row, in a savepoint; a refusal is a step, too."""
    (manifest,) = to_manifests(kind, {key: row})
    try:
        async with attempted(session):
            await delete(session, kind, spec=row.spec, key=key)
    except Refusal as error:
        return Step(Change.REFUSE, kind, manifest.name, refusal=str(error))
    return Step(Change.REMOVE, kind, manifest.name)


@asynccontextmanager
async def attempted(session: NestingSession) -> AsyncIterator[None]:
    """Take back what the block has written when the database refuses it; raises `Refusal` with its reason."""
    with refusals():
        async with session.begin_nested():
            yield


def is_from_manifest(row: StoredRow) -> bool:
    """Return whether the row is what `parley apply` has written last, so that it goes with its manifest.

    The rows of the operator go with their resources.
    """
    return not row.is_hidden and (row.who or "").startswith(APPLY)


def check_rows_are_said_once(manifests: Sequence[Manifest]) -> None:
    """Raise `Refusal` when two manifests say the same row."""
    sources: dict[tuple[str, str], Manifest] = {}
    for manifest in manifests:
        first = sources.setdefault((manifest.kind, manifest.key), manifest)
        if first is not manifest:
            raise Refusal(
                f"{first.source}: {first.kind}/{first.name} and {manifest.source}: {manifest.kind}/{manifest.name} "
                f"say the same row ({manifest.key})"
            )
