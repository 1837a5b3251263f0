"""Restricts what a turn may send once its prompt holds both untrusted text and private data."""

from agent.outflow.hosts import hosts_in
from agent.policies.taint import TurnTaint
from agent.turn.running import RunningTurn
from agent.turn.services import TurnServices
from shared.db.database import DatabaseLost


def build_taint(services: TurnServices, turn: RunningTurn) -> TurnTaint:
    """Return what computes the taint of the turn's prompt."""
    return TurnTaint(
        services.database,
        services.toolbox,
        participants=turn.participants,
        message=turn.message,
        history=turn.request.history,
        shown=turn.request.taint,
    )


async def restrict(turn: RunningTurn, taint: TurnTaint) -> None:
    """From now on, let the turn link only to hosts that its trusted texts mention, if its prompt is tainted."""
    try:
        is_whole = (await taint.find(turn.log)).is_whole
    except DatabaseLost:
        # The text is ready to be sent, and what earlier turns have read cannot be found out now.
        is_whole = True
    if is_whole:
        turn.announcer.outflow.restrict(taint.trusted_hosts(turn.log) | hosts_in(turn.offer.instructions))
