"""`parley persona dry-run`: a changed persona answers recorded turns again, and both answers are shown side by side."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from adapters.cli.console import is_json, progress, say, show_json, show_table
from adapters.cli.opening import find_database, prepare, read_settings
from shared.errors import Refusal
from shared.messages import Permission

if TYPE_CHECKING:
    from agent.commands.dry_run.replay import Prepared, Replayed
    from shared.settings import Settings

app = typer.Typer()
MOST_TURNS = 200


@app.command("dry-run")
def dry_run(
    name: str = typer.Argument(help="The persona."),
    prompt_file: Path | None = typer.Option(
        None, exists=True, dir_okay=False, help="Try these instructions instead of the persona's."
    ),
    model: str | None = typer.Option(None, help="Try this model, a litellm name."),
    version: int | None = typer.Option(None, min=1, help="Try this version, as `parley persona history` shows it."),
    turns: str | None = typer.Option(None, help="The turns to answer again, comma-separated."),
    last: int = typer.Option(5, min=1, max=MOST_TURNS, help="Without --turns: so many of its last turns."),
    payer: str | None = typer.Option(
        None, "--as", metavar="WHO", help="The admin who pays: platform:ID, name or number."
    ),
    yes: bool = typer.Option(False, "--yes", help="Don't ask before it costs anything."),
) -> None:
    """Let a changed persona answer recorded turns again; nothing is sent or stored with people, and no tool runs."""
    numbers = [part.strip() for part in (turns or "").split(",") if part.strip()]
    if (
        not all(number.isascii() and number.isdecimal() and len(number) < 19 for number in numbers)
        or len(numbers) > MOST_TURNS
    ):
        raise typer.BadParameter(f"--turns takes at most {MOST_TURNS} numbers of turns, comma-separated.")
    prompt = prompt_file.read_text(encoding="utf-8").strip() if prompt_file else None
    if prompt == "":
        raise typer.BadParameter("The instructions are empty.")
    if is_json() and not yes:
        raise typer.BadParameter("--json asks nothing: add --yes.")
    trial = {
        "persona": name,
        "prompt": prompt,
        "model": model,
        "version": version,
        "turns": tuple(map(int, numbers)),
        "last": last,
    }
    replayed = asyncio.run(_run(read_settings(quiet=True), trial, payer=payer, yes=yes))
    _show(replayed)
    if any(replay.error for replay in replayed):
        raise typer.Exit(1)


async def _run(settings: "Settings", trial: dict[str, Any], *, payer: str | None, yes: bool) -> "list[Replayed]":
    from adapters.cli.compose import open_app
    from adapters.cli.owner import resolve_terminal_user
    from adapters.cli.users import find_user
    from agent.commands.dry_run.replay import DryRun
    from agent.commands.dry_run.trials import Trial, prepare_trial
    from shared.models import User

    with progress("starting"):
        address = await prepare(settings, await asyncio.to_thread(find_database, settings))
    async with open_app(settings, address) as running:
        await running.models.router.warm()
        if payer is None:
            user = await resolve_terminal_user(running)
            payer_id, permission = user.id, user.permission
        else:
            async with running.database.transaction() as session:
                payer_id = await find_user(session, payer)
                permission = Permission.from_label((await session.get_one(User, payer_id)).permission_level)
        if permission < Permission.ADMIN:
            raise Refusal("A dry run is paid by an admin: name one with --as platform:ID.")
        run = DryRun(running.turns, payer_id)
        prepared = await prepare_trial(running, run, Trial(**trial))
        if not yes:
            _confirm(prepared)
        replayed = []
        for number, plan in enumerate(prepared, start=1):
            with progress(f"answering turn {plan.recorded.id} ({number} of {len(prepared)})"):
                replayed.append(await run.replay(plan))
        return replayed


def _confirm(prepared: "list[Prepared]") -> None:
    rows = [
        (
            plan.recorded.id,
            plan.recorded.user.name,
            plan.recorded.question[:60],
            plan.tokens,
            _dollars(plan.dollars),
        )
        for plan in prepared
    ]
    show_table(("turn", "who", "message", "about tokens", "at most $"), rows)
    prices = [plan.dollars for plan in prepared if plan.dollars is not None]
    dollars = _dollars(sum(prices) if len(prices) == len(prepared) else None)
    say(f"{len(prepared)} turns, about {sum(plan.tokens for plan in prepared):,} tokens, at most {dollars} $")
    typer.confirm("Answer them again?", abort=True)


def _show(replayed: "list[Replayed]") -> None:
    from agent.commands.dry_run.replay import total

    if is_json():
        show_json(
            [
                {
                    "turn": replay.prepared.recorded.id,
                    "message": replay.prepared.recorded.question,
                    "then": {
                        "model": replay.prepared.recorded.answer.model_used,
                        "text": replay.prepared.recorded.answer.content,
                    },
                    "now": {"model": replay.model, "text": replay.text},
                    "called": list(replay.calls),
                    "would_call": list(replay.would_call),
                    "error": replay.error,
                    "tokens": replay.usage.total,
                    "dollars": replay.usage.cost,
                }
                for replay in replayed
            ]
        )
        return
    for replay in replayed:
        turn = replay.prepared.recorded
        say(f"\nturn {turn.id}, {turn.user.name}: {turn.question}")
        then = f"then ({turn.answer.model_used or 'no model'})"
        would = "".join(f"\nwould call {call}" for call in replay.would_call)
        call_lines = "".join(f"\ncalled {call}" for call in replay.calls)
        show_table(
            (then, f"now ({replay.model or 'no model'})"),
            [(turn.answer.content, f"{replay.text}{call_lines}{would}".strip())],
        )
    usage = total(replayed)
    say(f"\n{len(replayed)} turns, {usage.total:,} tokens, {_dollars(usage.cost)} $, on your ledger as dry_run")


def _dollars(dollars: float | None) -> str:
    return "unknown" if dollars is None else f"{dollars:.6f}"
