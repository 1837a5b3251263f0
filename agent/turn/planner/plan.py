"""Plans: parses and validates the answer of a model in planner mode, and orders its calls by their dependencies.

In arguments, `$id` and `$id.field` refer to the result of a call or to a field of it. A string that consists of one
reference is replaced by the value itself; within a longer string the value is inserted as text, and `${id.field}` marks
where the reference ends.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import islice
from typing import Annotated, Any, Literal, NoReturn

from msgspec import Struct
from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from agent.tools.calls import depth
from shared.text import MAX_DEPTH, clean, clean_json, cut

MAX_CHARS = 1_000_000
# The least number of characters that a resolved reference counts for: a million short ones would take seconds.
LEAST_CHARS = 100
# The nesting depth of a call's arguments within a plan; added to the limit, so that they may be as deep as elsewhere.
WRAPPING = 4
MAX_REASONING = 20_000
KEPT_OF_BROKEN = 2000
SHOWN_NAMES = 20
SHOWN_PROBLEMS = 5
REFERENCE = re.compile(r"\$(?P<brace>\{)?(?P<id>[\w-]+)(?P<path>(?:\.[\w-]+)*)(?(brace)\})")
# "$5" in a text is a price: ids that are no identifiers create a dependency only if `needs` lists them.
CLEAR_ID = re.compile(r"[^\W\d][\w-]*")


class PlanBroken(Exception):
    """Raised when a model's answer is not a valid plan; the message explains the error to the model."""


def _or(empty: Any) -> BeforeValidator:
    # Many models write null for omitted fields.
    return BeforeValidator(lambda field: empty if field is None else field)


class PlannedTool(BaseModel):
    """A call as the model wrote it; `needs` are the ids of the calls that must succeed before it."""

    model_config = ConfigDict(extra="forbid", coerce_numbers_to_str=True, defer_build=True)

    # A count of `\w` in the pattern would take 7 MB.
    id: Annotated[str, _or(""), Field(max_length=64, pattern=r"^[\w-]*$")] = ""
    tool: str = Field(min_length=1, validation_alias=AliasChoices("tool", "tool_name", "name"))
    args: Annotated[dict[str, Any] | str, _or({})] = Field(
        default_factory=dict, validation_alias=AliasChoices("args", "arguments", "parameters")
    )
    needs: Annotated[list[str], _or([])] = Field(default_factory=list)


class PlanningResult(BaseModel):
    """A plan as the model wrote it; the order of the fields makes it reason first and write the response last."""

    # Built with the first plan: few installations plan.
    model_config = ConfigDict(defer_build=True)

    reasoning: Annotated[str, _or("")] = ""
    status: Literal["continue", "done"]
    action: Annotated[str, _or("")] = ""
    slots: Annotated[dict[str, Any], _or({})] = Field(default_factory=dict)
    tools: Annotated[list[PlannedTool], _or([])] = Field(default_factory=list)
    response: str | None = None


def _to_object(**properties: Any) -> dict[str, Any]:
    # Every field is required, so that a model with constrained output writes its reasoning before it decides.
    return {"type": "object", "properties": properties, "required": list(properties)}


TEXT = {"type": "string"}
# Explicit, because some servers with constrained output otherwise allow no keys.
ANYTHING = {"type": "object", "additionalProperties": True}
TOOL = _to_object(id=TEXT, tool=TEXT, args=ANYTHING, needs={"type": "array", "items": TEXT})
SCHEMA = _to_object(
    reasoning=TEXT,
    status={"type": "string", "enum": ["continue", "done"]},
    action=TEXT,
    slots=ANYTHING,
    tools={"type": "array", "items": TOOL},
    response=TEXT,
)


class PlannedCall(Struct, frozen=True):
    """A call of a valid plan; `level` is the index (from 0) of the plan's wave in which it may run."""

    id: str
    tool: str
    args: dict[str, Any] | str
    needs: tuple[str, ...]
    level: int


class Plan(Struct, frozen=True):
    """A valid plan, as the journal stores it; `waves` is the number of its levels that may run."""

    status: Literal["continue", "done"]
    action: str
    slots: dict[str, Any]
    reasoning: str
    response: str
    calls: tuple[PlannedCall, ...]
    waves: int

    @classmethod
    def from_journal(cls, plain: Mapping[str, Any]) -> "Plan":
        """Convert the journal's form back to a plan."""
        fields = {key: plain[key] for key in ("status", "action", "slots", "reasoning", "response", "waves")}
        calls = tuple(PlannedCall(**{**call, "needs": tuple(call["needs"])}) for call in plain["tools"])
        return cls(**fields, calls=calls)

    def to_journal(self) -> dict[str, Any]:
        """Convert the plan to the form that the journal stores."""
        tools = [
            {"id": call.id, "tool": call.tool, "args": call.args, "needs": list(call.needs), "level": call.level}
            for call in self.calls
        ]
        plain = {"status": self.status, "action": self.action, "slots": self.slots, "reasoning": self.reasoning}
        return {**plain, "response": self.response, "tools": tools, "waves": self.waves}


def to_broken(text: str, error: PlanBroken) -> dict[str, Any]:
    """Build the journal entry for an invalid plan: the beginning of its text, and the error."""
    return {"broken": clean(text[:KEPT_OF_BROKEN]), "error": str(error)}


def read_plan(text: str) -> PlanningResult:
    """Parse the plan in an answer, ignoring text around the JSON object; raises `PlanBroken` when it is invalid."""
    if len(text) > MAX_CHARS:
        raise PlanBroken(f"It is longer than {MAX_CHARS:,} characters.")
    begins = text.find("{")
    if begins < 0:
        raise PlanBroken("It holds no JSON object.")
    try:
        plain, _ = DECODER.raw_decode(text, begins)
    except json.JSONDecodeError as error:
        raise PlanBroken(f"It is no valid JSON: {error.msg} at character {error.pos}.") from None
    except (ValueError, RecursionError):
        raise PlanBroken("It is no valid JSON, or nested too deep.") from None
    if depth(plain) > MAX_DEPTH + WRAPPING:
        raise PlanBroken(f"It is nested more than {MAX_DEPTH + WRAPPING} deep.")
    try:
        return PlanningResult.model_validate(clean_json(plain))
    except ValidationError as error:
        first = islice(error.errors(), SHOWN_PROBLEMS)
        problems = [f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in first]
        raise PlanBroken(cut("; ".join(problems), KEPT_OF_BROKEN)) from None


def read_part(text: str) -> dict[str, Any]:
    """Parse an incomplete plan as far as it goes, including an unfinished last string; {} when it cannot be parsed."""
    begins = text.find("{")
    if begins < 0 or len(text) > MAX_CHARS:
        return {}
    try:
        plain = from_json(text[begins:], allow_partial="trailing-strings")
    except ValueError:
        return {}
    return plain if isinstance(plain, dict) else {}


def find_open_response(plain: Mapping[str, Any]) -> str:
    """Return the response in an incomplete plan; empty as long as the plan may still contain tool calls."""
    response = plain.get("response")
    is_end = list(plain)[-1:] == ["response"] and plain.get("tools", ...) in ([], None)
    return response if is_end and plain.get("status") == "done" and isinstance(response, str) else ""


def arrange(result: PlanningResult, result_ids: Collection[str], *, most_calls: int, waves_left: int) -> Plan:
    """Validate a plan, and compute the needs and level of each call; calls may also need the ids in `finished`.

    At most `most_calls` calls are kept. Raises `PlanBroken` for a plan without tools and response, duplicate ids,
    unknown needs and circular needs.
    """
    response = (result.response or "").strip()
    if not result.tools and not response:
        raise PlanBroken("It names no tools, so it must give the response for the person.")
    calls = _with_needs(result.tools, result_ids)
    own = {call.id for call in calls}
    order = TopologicalSorter({call.id: [need for need in call.needs if need in own] for call in calls})
    try:
        order.prepare()
    except CycleError as error:
        raise PlanBroken(f"These need each other in a circle: {_some(error.args[1])}.") from None
    levels: dict[str, int] = {}
    level = 0
    while order.is_active():
        ready = order.get_ready()
        levels |= dict.fromkeys(ready, level)
        order.done(*ready)
        level += 1
    planned_calls = [
        PlannedCall(call.id, call.tool, args=call.args, needs=tuple(call.needs), level=levels[call.id])
        for call in calls[:most_calls]
    ]
    deepest = max((call.level + 1 for call in planned_calls), default=0)
    return Plan(
        status=result.status,
        action=result.action,
        slots=result.slots,
        reasoning=cut(result.reasoning.strip(), MAX_REASONING),
        response=response,
        calls=tuple(planned_calls),
        waves=min(deepest, max(1, waves_left)),
    )


def fill_in(args: Any, results: Mapping[str, Any]) -> Any:
    """Replace references in arguments by results.

    Raises `PlanBroken` when a result lacks the field, naming its fields, or when the arguments become too large.
    """
    left = MAX_CHARS

    def found(reference: re.Match[str]) -> Any:
        nonlocal left
        result = results[reference["id"]]
        for part in reference["path"].split(".")[1:]:
            length = len(result) if isinstance(result, list) else 0
            names = list(result) if isinstance(result, dict) else [str(number) for number in range(length)]
            if part not in names:
                there = ", ".join(map(str, names[:SHOWN_NAMES])) or "nothing"
                error = f"{reference[0]}: the result has no {part!r} there; it has: {there}."
                raise PlanBroken(cut(error, KEPT_OF_BROKEN))
            result = result[part] if isinstance(result, dict) else result[int(part)]
        left -= max(LEAST_CHARS, len(_to_text(result)))
        if left < 0:
            raise PlanBroken(f"With so many results in them the arguments are larger than {MAX_CHARS:,} characters.")
        return result

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: filled(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [filled(inner) for inner in value]
        if not isinstance(value, str):
            return value
        whole = REFERENCE.fullmatch(value)
        if whole is not None and whole["id"] in results:
            return found(whole)
        return REFERENCE.sub(lambda part: _to_text(found(part)) if part["id"] in results else part[0], value)

    return filled(args)


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _with_needs(tools: list[PlannedTool], result_ids: Collection[str]) -> list[PlannedTool]:
    tool_ids = {tool.id for tool in tools}
    free = (f"t{number}" for number in range(1, 2 * len(tools) + 2) if f"t{number}" not in tool_ids)
    calls = [tool if tool.id else tool.model_copy(update={"id": next(free)}) for tool in tools]
    counts = Counter(call.id for call in calls)
    if twice := [id_ for id_, count in counts.items() if count > 1]:
        raise PlanBroken(f"Every id may stand once; these stand more often: {_some(twice)}.")
    ids = dict.fromkeys([*counts, *result_ids])
    with_needs = []
    for call in calls:
        if unknown := [need for need in call.needs if need not in ids]:
            raise PlanBroken(f"{call.id} needs {_some(unknown)}, and no call has that id. There are: {_some(ids)}.")
        # A call needs every result that its arguments refer to, listed in `needs` or not.
        references = (id_ for id_ in _references(call.args) if id_ in ids and CLEAR_ID.fullmatch(id_))
        with_needs.append(call.model_copy(update={"needs": list(dict.fromkeys([*call.needs, *references]))}))
    return with_needs


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _references(inner)
    elif isinstance(value, str):
        yield from (match["id"] for match in REFERENCE.finditer(value))


def _some(names: Collection[str]) -> str:
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return ", ".join(islice(names, SHOWN_NAMES)) + more


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


DECODER = json.JSONDecoder(strict=False, parse_constant=_refuse)
