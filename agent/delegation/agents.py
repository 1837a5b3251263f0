"""The agents that a turn may ask, the tool that asks one, and what readers are told of it.

A row of `agents` is a persona of this house or an agent at a url. Who may ask it: whoever has its permission, where the
persona allows the module `agents`, and never one who was asked on the way here.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Protocol

from agent.confirmations.decisions import Question
from agent.journal.steps import Event, Step
from agent.llm.protocols.patterns import DELEGATE
from agent.people.agents import ListedAgent
from agent.people.hops import MAX_DEPTH
from agent.people.personas import get_persona
from agent.prompts import prompts
from shared.errors import ToolError
from shared.messages import Usage
from shared.permissions import Permission
from shared.tools import Tool, ToolContext

if TYPE_CHECKING:
    from agent.app import App
    from agent.events.announcer import Announcer
    from agent.tools.toolbox import Scope
    from agent.turn.log import Progress
    from agent.turn.open import RunningTurn

MODULE = "agents"
TOOL = f"{MODULE}.{DELEGATE}"
# The turn's deadline ends it sooner, and the agent says why.
TIMEOUT_SECONDS = 7200.0


@dataclass(frozen=True, slots=True)
class DelegationResult:
    """What an agent came to: its result, or why it has none; `iterations` and `usage` count those it asked itself.

    `question`: what the person has to say yes to before it does what it wants to do.
    """

    agent: str
    text: str
    error: str | None = None
    finished: bool = True
    iterations: int = 0
    usage: Usage = field(default_factory=Usage)
    files: tuple[dict[str, Any], ...] = ()
    question: Question | None = None


class Delegate(Protocol):
    """How a turn has a task done by an agent."""

    async def __call__(
        self, app: "App", turn: "RunningTurn", progress: "Progress", call_id: str, agent: str, task: str
    ) -> dict[str, Any]:
        """Return the tool's result; raises `ToolError` when there is none."""
        ...


@dataclass(frozen=True, slots=True)
class AskingContext(ToolContext):
    """What the tool that asks an agent is given: `delegate` has it do a task for this very call."""

    delegate: Callable[[str, str], Awaitable[dict[str, Any]]] = field(kw_only=True)


def to_asking(context: ToolContext, delegate: Callable[[str, str], Awaitable[dict[str, Any]]]) -> AskingContext:
    """Return the context of a call that asks an agent."""
    return AskingContext(**{each.name: getattr(context, each.name) for each in fields(context)}, delegate=delegate)


def list_askable(scope: "Scope") -> tuple[ListedAgent, ...]:
    """Return the agents that may be asked in this scope, by name."""
    modules = scope.persona.allowed_modules
    # Where nobody has written a persona, the rows of `agents` alone say who may ask whom.
    is_allowed = modules is None or MODULE in modules or scope.persona.id is None
    if not scope.agents or not is_allowed or len(scope.hops) >= MAX_DEPTH:
        return ()
    return tuple(
        each for each in scope.agents if each.requires <= scope.user.permission and not _is_on_way(scope, each)
    )


def find_askable(scope: "Scope", name: str) -> ListedAgent:
    """Return the agent with this name; raises `ToolError` that says why it may not be asked, and who may."""
    askable = list_askable(scope)
    for each in askable:
        if each.name == name:
            return each
    known = next((each for each in scope.agents if each.name == name), None)
    raise ToolError(
        why_not(scope, known) or prompts().delegation.unknown.format(agent=name[:64]),
        agents=[each.name for each in askable],
    )


def why_not(scope: "Scope", agent: ListedAgent | None = None) -> str | None:
    """Return what keeps a task from being handed on, for the model; None when there simply is no such agent here."""
    way = " → ".join(scope.hops)
    if len(scope.hops) >= MAX_DEPTH:
        return prompts().delegation.too_deep.format(hops=way, most=MAX_DEPTH)
    if agent is not None and _is_on_way(scope, agent):
        return prompts().delegation.cycle.format(agent=agent.name, hops=way or scope.persona.name)
    return None


def build_tool(agents: Sequence[ListedAgent]) -> Tool:
    """Return the tool that asks one of these agents; the same agents give the same text to the byte."""

    async def delegate(context: ToolContext, agent: str, task: str) -> Any:
        if not isinstance(context, AskingContext):
            raise ToolError(prompts().delegation.not_here)
        return await context.delegate(agent, task)

    listed = "\n".join(f"- {each.name}: {' '.join(each.description.split())}" for each in agents)
    delegate.__doc__ = prompts().delegation.tool.format(agents=listed)
    return Tool(delegate, Permission.GUEST, timeout_seconds=TIMEOUT_SECONDS, module=MODULE)


def is_delegation(step: Step) -> bool:
    """Return whether a call, or the result of one, is a task for an agent."""
    return step.tool_name == TOOL


async def as_agent(app: "App", turn: "RunningTurn", name: str) -> "RunningTurn":
    """Return the turn with what an agent of this house may use; raises `ToolError` when it may not be asked."""
    known = next((each for each in turn.scope.agents if each.name == name), None)
    if known is None or known.persona_id is None or known.requires > turn.user.permission:
        raise ToolError(prompts().delegation.switched_off.format(agent=name))
    async with app.database.statement() as session:
        persona = await get_persona(session, known.persona_id, turn.user.permission, settings=app.settings)
    scope = replace(turn.scope, persona=persona, hops=(*turn.scope.hops, name))
    return replace(turn, persona=persona, scope=scope, offer=app.toolbox.offered_to(scope))


def leaves_house(scope: "Scope", call: Step) -> bool:
    """Return whether a call hands its task to an agent at a url; one of this house is watched at its own calls."""
    name = call.value.get("agent")
    return not any(each.name == name and each.persona_id is not None for each in scope.agents)


def count_model_calls(steps: Iterable[Step]) -> int:
    """Return how many model calls the journal tells of: the turn's own, and those of the agents that it asked."""
    count = 0
    for step in steps:
        if step.role == "assistant":
            # Under a call that the person has agreed to stands no model.
            count += step.model_used is not None
        elif step.role == "tool_result" and is_delegation(step):
            count += _model_calls(step.value)
    return count


def tell_call(announcer: "Announcer", call: Step) -> Iterator[Event]:
    """Yield the events of a recorded call."""
    given = call.value
    yield announcer.event("tool_call", id=call.tool_call_id, tool=call.tool_name, args=given)
    if is_delegation(call):
        asked = {"agent": given.get("agent"), "task": given.get("task")}
        yield announcer.event("delegation_request", id=call.tool_call_id, **asked)


def tell_result(
    announcer: "Announcer", call: Step, result: Step, told: DelegationResult | None, *, is_error: bool
) -> Iterator[Event]:
    """Yield the events of a call's result; `told` is what the agent came to that was asked, if one was."""
    plain = result.value
    if is_delegation(result):
        facts = told or DelegationResult(agent=str(call.value.get("agent", "")), text="")
        outcome = {"error": plain.get("message")} if is_error else {"result": facts.text}
        yield announcer.event(
            "delegation_response",
            id=result.tool_call_id,
            agent=facts.agent,
            iterations=facts.iterations,
            usage=asdict(facts.usage),
            **outcome,
        )
    yield announcer.event("tool_result", id=result.tool_call_id, tool=result.tool_name, result=plain, error=is_error)


def _is_on_way(scope: "Scope", agent: ListedAgent) -> bool:
    is_itself = agent.persona_id is not None and agent.persona_id == scope.persona.id
    return is_itself or agent.name in scope.hops


def _model_calls(result: Any) -> int:
    count = result.get("iterations") if isinstance(result, dict) else None
    return count if isinstance(count, int) else 0
