"""What readers of a turn are told of its tool calls and of what they come to."""

from collections.abc import Iterable
from dataclasses import dataclass

from agent.events.announcer import Announcer
from agent.journal.steps import Event, Step
from agent.tools.calls import PendingCall, to_pending
from agent.tools.offer import Offer, Scope
from agent.tools.outcomes import Outcome, is_error
from agent.tools.toolbox import Toolbox


@dataclass(frozen=True, slots=True)
class ToolEvents:
    """Makes the events of one turn's calls; the providers of their tools may add some of their own."""

    announcer: Announcer
    toolbox: Toolbox
    scope: Scope
    offer: Offer

    def of_calls(self, steps: Iterable[Step]) -> list[Event]:
        """Return the events of calls that are recorded."""
        events: list[Event] = []
        for step in steps:
            call = to_pending(step, self.scope, self.offer)
            events.append(self.announcer.event("tool_call", id=call.id, tool=call.name, args=call.arguments))
            events += [self.announcer.event(name, **told) for name, told in self.toolbox.call_events(call)]
        return events

    def of_result(self, step: Step, call: PendingCall, outcome: Outcome) -> list[Event]:
        """Return the events of a call's outcome, which stands in this step."""
        events = [self.announcer.event(name, **told) for name, told in self.toolbox.result_events(call, outcome)]
        told = {"id": call.id, "tool": call.name, "result": step.value, "error": is_error(outcome)}
        return [*events, self.announcer.event("tool_result", **told)]
