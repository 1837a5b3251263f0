"""The events of a turn's tool calls and results, for its readers."""

from collections.abc import Iterable

from msgspec import Struct

from agent.journal.steps import Event, Step
from agent.live.announcer import Announcer
from agent.tools.calls import PendingCall, to_pending
from agent.tools.offer import Offer, Scope
from agent.tools.outcomes import NeedsApproval, Outcome, is_error
from agent.tools.toolbox import Toolbox


class ToolEvents(Struct, frozen=True):
    """Creates the events of one turn's tool calls; tool providers may add events of their own."""

    announcer: Announcer
    toolbox: Toolbox
    scope: Scope
    offer: Offer

    def of_calls(self, steps: Iterable[Step]) -> list[Event]:
        """Return the events of the calls in these journal steps."""
        events: list[Event] = []
        for step in steps:
            call = to_pending(step, self.scope, self.offer)
            events.append(self.announcer.event("tool_call", id=call.id, tool=call.name, args=call.arguments))
            events += [self.announcer.event(name, **payload) for name, payload in self.toolbox.list_events(call)]
        return events

    def of_result(self, step: Step, call: PendingCall, outcome: Outcome) -> list[Event]:
        """Return the events of a call's outcome, which this journal step records."""
        # These may hold the text of another agent.
        foreign = self.announcer.outflow.foreign
        events = [
            self.announcer.event(name, **{key: foreign(it) if isinstance(it, str) else it for key, it in more.items()})
            for name, more in self.toolbox.list_events(call, outcome)
        ]
        payload = {"id": call.id, "tool": call.name, "result": step.value, "error": is_error(outcome)}
        if isinstance(outcome, NeedsApproval):
            payload["needs_approval"] = True
        return [*events, self.announcer.event("tool_result", **payload)]
