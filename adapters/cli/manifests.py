"""`parley export`, `apply` and `operator`: switched modules, personas, agents, MCP servers, budgets as resources."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from adapters.cli.console import complain, is_json, say, show_json
from adapters.cli.opening import in_transaction, name_system_user, opened_database, read_settings
from adapters.kubernetes.exports import list_secrets, read_files, to_manifests, write_yaml
from adapters.kubernetes.manifests import SPECS, Manifest
from adapters.kubernetes.plans import Change, Step, apply_all
from adapters.kubernetes.rows import list_rows, name_actor
from shared.clock import SystemClock
from shared.errors import ConfigurationError, Refusal
from shared.settings.model import EXTRAS_REMEDY
from shared.text import harmless

if TYPE_CHECKING:
    from shared.db.driver import Connection, Session
    from shared.settings import Settings

app = typer.Typer()

# How a dry run ends that would change something.
WOULD_CHANGE = 4
STANDARD_INPUT = Path("-")
COLORS = {
    Change.ADD: typer.colors.GREEN,
    Change.CHANGE: typer.colors.YELLOW,
    Change.REMOVE: typer.colors.RED,
    Change.REFUSE: typer.colors.RED,
}


@app.command("export")
def export(
    kubernetes: bool = typer.Option(False, "--kubernetes", help="As resources of Kubernetes, in YAML; the only form."),
) -> None:
    """Write the switched modules, MCP servers, personas, agents and budgets that are there. Secrets are left out."""
    if not kubernetes:
        raise typer.BadParameter("Say in which form: --kubernetes.")

    async def work(session: "Session", _settings: "Settings") -> list[Manifest]:
        return [manifest for kind in SPECS for manifest in to_manifests(kind, await list_rows(session, kind))]

    manifests = in_transaction(work)
    for manifest in manifests:
        if fields := list_secrets(manifest):
            complain(
                f"{manifest.kind}/{manifest.name}: a secret is left out of {', '.join(fields)}; "
                "name a variable there before you apply it, such as ${MCP_TOKEN}"
            )
    if is_json():
        show_json([manifest.to_document() for manifest in manifests])
    else:
        typer.echo(write_yaml(manifests), nl=False)


@app.command("apply")
def apply(
    path: Path = typer.Argument(help="A YAML file, a folder of such files, or - for stdin."),
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Only show what would change; ends with 4 if anything would."
    ),
    prune: bool = typer.Option(False, "--prune", help="Also remove what was applied before and is not there any more."),
) -> None:
    """Make rows what manifests say. When one is wrong or refused, nothing is changed."""
    if path != STANDARD_INPUT and not path.exists():
        raise typer.BadParameter(f"There is no file or folder {path}.")
    manifests, faults = read_files(path, typer.get_text_stream("stdin").read() if path == STANDARD_INPUT else None)
    if faults:
        for fault in faults:
            complain(fault)
        raise Refusal("nothing is changed")
    if not manifests:
        # With --prune a wrong folder, or a pipe that has broken, would remove all there is.
        raise Refusal(f"{path} holds no manifest; nothing is changed")

    async def work(session: "Connection", _settings: "Settings") -> list[Step]:
        await name_actor(session, f"apply:{name_system_user()}")
        rehearsal = session.begin_nested()
        await rehearsal.start()
        steps = await apply_all(session, manifests, removes=prune)
        if dry_run or any(step.change is Change.REFUSE for step in steps):
            await rehearsal.rollback()
        return steps

    steps = in_transaction(work)
    counts = Counter(step.change for step in steps)
    _show_steps(steps, is_plan=dry_run or bool(counts[Change.REFUSE]))
    if counts[Change.REFUSE]:
        raise Refusal(f"{counts[Change.REFUSE]} refused; nothing is changed")
    if dry_run and counts[Change.SAME] < len(steps):
        raise typer.Exit(WOULD_CHANGE)


@app.command("operator")
def start_operator(
    namespace: str = typer.Option("default", help="Whose resources become rows."),
    interval: float = typer.Option(30.0, min=0.1, help="Seconds between two looks for rows that somebody changed."),
) -> None:
    """Make rows what resources in a cluster say. Their status tells what became of them."""
    settings = read_settings()
    if find_spec("kopf") is None:
        raise ConfigurationError(f"the operator needs kopf, which is not installed; {EXTRAS_REMEDY} `operator`.")
    from adapters.kubernetes.operator import run_operator  # kopf is an extra

    async def work() -> None:
        async with opened_database(settings) as database:
            say(f"the operator watches the namespace {namespace}")
            await run_operator(database, SystemClock(), namespace=namespace, seconds=interval)

    asyncio.run(work())


def _show_steps(steps: Sequence[Step], *, is_plan: bool) -> None:
    if is_json():
        show_json([_to_value(step) for step in steps])
        return
    for step in steps:
        drift = f" ({step.drift})" if step.drift else ""
        lines = [f"{step.change} {step.kind}/{step.name}{drift}", *(f"    {line}" for line in step.differences)]
        if step.refusal:
            where = f" [{step.source}]" if step.source else ""
            lines = [f"{step.change} {step.kind}/{step.name}{where}: {step.refusal}"]
        for line in lines:
            typer.secho(harmless(line), fg=COLORS.get(step.change))
    counts = Counter(step.change for step in steps)
    added, changed, removed = ("to add", "to change", "to remove") if is_plan else ("added", "changed", "removed")
    say(
        f"{counts[Change.ADD]} {added}, {counts[Change.CHANGE]} {changed}, {counts[Change.REMOVE]} {removed}, "
        f"{counts[Change.SAME]} unchanged"
    )


def _to_value(step: Step) -> dict[str, object]:
    return {
        "change": step.change.name.lower(),
        "kind": step.kind,
        "name": step.name,
        "differences": list(step.differences),
        "drift": step.drift,
        "refusal": step.refusal,
    }
