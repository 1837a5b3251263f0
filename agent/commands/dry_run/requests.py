"""Plays the dry runs of a command, in its own process or for one that waits beside this worker."""

import asyncio
import json
from typing import TYPE_CHECKING, Any

from agent.queue.maintenance.steps import Steps
from shared.db.statements import load_statements
from shared.errors import Refusal

if TYPE_CHECKING:
    from agent.app import App
    from agent.commands.dry_run.replay import Prepared, Replayed
    from agent.live.notifier import JobTaker

statements = load_statements(__file__)

LOOK_SECONDS = 1.0


async def play(app: "App", request: dict[str, Any]) -> dict[str, Any]:
    """Answer the turns of a trial again, or with `is_estimate` tell what that takes; values are those of JSON.

    A reply has `turns`, or why it was refused.
    """
    # Imported here: every worker looks for dry runs, and few ever play one.
    from agent.commands.dry_run.replay import DryRun
    from agent.commands.dry_run.trials import Trial, prepare_trial

    run = DryRun(app.turns, request["payer_id"])
    try:
        prepared = await prepare_trial(app, run, Trial(**request["trial"]))
    except Refusal as refusal:
        return {"refusal": str(refusal)}
    if request["is_estimate"]:
        return {"turns": [_to_estimate(plan) for plan in prepared]}
    return {"turns": [_to_comparison(await run.replay(plan)) for plan in prepared]}


async def play_waiting(app: "App", worker: "JobTaker") -> None:
    """Play the dry runs that wait, one after the other."""
    while worker.worker_id is not None:
        async with app.database.statement() as session:
            row = (await session.execute(statements.take, {"worker_id": worker.worker_id})).one_or_none()
        if row is None:
            return
        reply: dict[str, Any] = {"refusal": "The worker has not come to the end of it; its log says why."}
        try:
            reply = await _play_for_reader(app, row)
        finally:
            async with app.database.statement() as session:
                await session.execute(statements.reply, {"id": row.id, "reply": json.dumps(reply)})


async def _play_for_reader(app: "App", row: Any) -> dict[str, Any]:
    """Play a dry run for as long as its command waits: what nobody reads is not paid any further."""
    playing = asyncio.create_task(play(app, json.loads(row.request)), name="dry run")
    try:
        has_reader = True
        while has_reader and not (await asyncio.wait({playing}, timeout=LOOK_SECONDS))[0]:
            async with app.database.statement() as session:
                has_reader = (await session.execute(statements.has_reader, {"id": row.id})).scalar_one()
        return playing.result() if playing.done() else {"refusal": "Nobody waited for it any more."}
    finally:
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)


async def remove_left(steps: Steps) -> None:
    """Remove the dry runs that nobody waits for any more."""
    await steps.run(statements.remove_left)


def _to_estimate(plan: "Prepared") -> dict[str, Any]:
    turn = plan.recorded
    return {
        "turn": turn.id,
        "who": turn.user.name,
        "message": turn.question,
        "tokens": plan.tokens,
        "dollars": plan.dollars,
    }


def _to_comparison(replay: "Replayed") -> dict[str, Any]:
    turn = replay.prepared.recorded
    return {
        "turn": turn.id,
        "message": turn.question,
        "then": {"model": turn.answer.model_used, "text": turn.answer.content},
        "now": {"model": replay.model, "text": replay.text},
        "called": list(replay.calls),
        "would_call": list(replay.would_call),
        "error": replay.error,
        "tokens": replay.usage.total,
        "dollars": replay.usage.cost,
    }
