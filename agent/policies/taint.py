"""Taint: what the model is shown in a turn may have been written to turn it against the person.

A turn that shows the model both untrusted text (what somebody else wrote) and private data acts outward, or changes
something, only with the person's yes. Untrusted are the results of tools that are marked so, in a shared channel what
others have said, and whatever an agent of another house writes; private are the results of tools that are marked so,
and in a direct message the recalled memories. All that is shown counts, earlier turns too; what the person has typed is
neither. An agent is told by one who has seen all this, and tells it what it has seen itself.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import text

from agent.app import App
from agent.confirmations.decisions import AGENT_ADAPTERS
from agent.delegation import agents
from agent.journal.steps import Step
from agent.prompts import prompts
from agent.turn.log import Progress
from agent.turn.open import RunningTurn
from shared.tools import Tool

LAST_ID = 2**63 - 1

# What a summary was made of: the turns before the window.
SUMMARISED = text("""
SELECT array_agg(DISTINCT tool_name) FILTER (WHERE role = 'tool_result') AS tools,
       coalesce(bool_or(role = 'user' AND user_id IS DISTINCT FROM :user_id), false) AS has_others
FROM messages
WHERE conversation_id = :conversation_id AND turn_id < :window AND (NOT :is_direct OR user_id = :user_id)
""")
# What the agents have read that were asked in these turns; one without a persona is in another house.
BELOW = text("""
SELECT array_agg(DISTINCT messages.tool_name) FILTER (WHERE messages.role = 'tool_result') AS tools,
       coalesce(bool_or(turns.persona_id IS NULL), false) AS has_strangers
FROM turns JOIN messages ON messages.turn_id = turns.id
WHERE turns.conversation_id = :conversation_id AND turns.parent_turn_id >= :first AND turns.parent_turn_id < :before
  AND (NOT :is_direct OR turns.user_id = :user_id)
""")


@dataclass(frozen=True, slots=True)
class Taint:
    """What a prompt holds: text that somebody else wrote, and data that not everybody may know."""

    untrusted: bool = False
    private: bool = False

    @property
    def is_whole(self) -> bool:
        """Return whether both came together."""
        return self.untrusted and self.private

    def __or__(self, other: "Taint") -> "Taint":
        return Taint(self.untrusted or other.untrusted, self.private or other.private)


async def is_tainted(app: App, turn: RunningTurn, progress: Progress, calls: Sequence[Step]) -> bool:
    """Return whether those of these calls that act need the person's yes: by what they were written after.

    Nothing is looked at when none of them acts.
    """
    tools = [app.toolbox.find(str(call.tool_name)) for call in calls]
    acting = any(tool.is_acting for tool in tools if tool is not None) or any(map(agents.is_delegation, calls))
    return acting and (await find_taint(app, turn, progress)).is_whole


async def find_taint(app: App, turn: RunningTurn, progress: Progress) -> Taint:
    """Return what the model is shown now; the database is asked about summaries and agents alone."""
    history, own = [each.step for each in turn.history], progress.steps
    taint = of_results(app, (step.tool_name for step in (*history, *own) if step.role == "tool_result"))
    taint |= Taint(untrusted=_shows_others(turn) or progress.shows_untrusted, private=progress.shows_private)
    asked = [each.turn_id for each in turn.history if agents.is_delegation(each.step)]
    asked += [turn.key.id for step in own if agents.is_delegation(step)]
    if not taint.is_whole and asked:
        taint |= await _below(app, turn, min(asked), LAST_ID)
    if not taint.is_whole and turn.conversation.summary:
        taint |= await _summarised(app, turn)
    return taint


def of_results(app: App, names: Iterable[str | None]) -> Taint:
    """Return what the results of these tools may hold; a tool that is gone may have been anybody's."""
    taint = Taint()
    for name in set(names) - {agents.TOOL}:
        taint |= _of_tool(app.toolbox.find(str(name)))
    return taint


def _of_tool(tool: Tool | None) -> Taint:
    return Taint(untrusted=True) if tool is None else Taint(tool.reads_untrusted, tool.reads_private)


def _shows_others(turn: RunningTurn) -> bool:
    # What comes by such a door was written by another house's model, for whomever it names.
    if turn.message.adapter in AGENT_ADAPTERS:
        return True
    # What others said before a message stands in it, below a heading.
    platform_context, heading = turn.message.platform_context, prompts().turn.earlier_heading
    said = [each for each in turn.history if each.step.role == "user"]
    has_others = any(each.user_id != turn.user.id or heading in each.step.content for each in said)
    return has_others or bool(platform_context.earlier or platform_context.topic or platform_context.thread_title)


async def _below(app: App, turn: RunningTurn, first: int, before: int) -> Taint:
    is_direct = turn.conversation.place.is_direct
    given = {
        "user_id": turn.user.id,
        "conversation_id": turn.conversation.id,
        "first": first,
        "before": before,
        "is_direct": is_direct,
    }
    async with app.database.statement() as session:
        row = (await session.execute(BELOW, given)).one()
    # What an agent was shown of the person's memories stands in no journal.
    remembered = Taint(private=is_direct and turn.user.has_memories)
    return of_results(app, row.tools or ()) | Taint(untrusted=row.has_strangers) | remembered


async def _summarised(app: App, turn: RunningTurn) -> Taint:
    conversation = turn.conversation
    given = {
        "user_id": turn.user.id,
        "conversation_id": conversation.id,
        "window": conversation.window_turn_id,
        "is_direct": conversation.place.is_direct,
    }
    async with app.database.statement() as session:
        row = (await session.execute(SUMMARISED, given)).one()
    taint = of_results(app, row.tools or ()) | Taint(untrusted=row.has_others)
    return (
        taint | await _below(app, turn, 0, conversation.window_turn_id) if agents.TOOL in (row.tools or ()) else taint
    )
