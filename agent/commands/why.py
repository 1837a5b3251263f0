"""The command `/why`: why the person was answered as they were."""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import asdict

from agent.commands.base import Request, command
from agent.commands.signature import Id
from shared.db.statements import load_statements
from shared.errors import Refusal
from shared.text import cut

statements = load_statements(__file__)

MOST_NAMED = 20
MEMORY_CHARS = 100


@command("why", hint="Write /why for your last answer here, or /why and the number of one of your turns.")
async def explain_answer(request: Request, turn: Id | None = None) -> str:
    """Show why you got your last answer here: who answered, with what tools and memories, and what it cost you."""
    place = request.place
    parameters = asdict(place) | {"user_id": request.user.id, "turn_id": turn}
    async with request.app.database.transaction() as session:
        story = (await session.execute(statements.explain_answer, parameters)).scalar_one_or_none()
    if story is None:
        raise Refusal("You have no such turn here." if turn is not None else "I have not answered you here yet.")
    recalled = story["context"].get("memories") or []
    memories_by_id = await request.app.memory.of_user(request.user.id, place, None).read(
        [entry["id"] for entry in recalled]
    )
    memories = [
        f'"{cut(memories_by_id[entry["id"]].content, MEMORY_CHARS)}" ({entry["score"]})'
        for entry in recalled
        if entry["id"] in memories_by_id
    ]
    return "\n".join(_lines(story, memories))


def _lines(story: dict[str, Any], memories: Sequence[str]) -> Iterator[str]:
    turn, persona, budget = story["turn"], story["persona"], story["budget"]
    yield f"Turn {turn['id']}: {turn['status']} after {turn['seconds']} s, {_count(turn['model_calls'], 'model call')}."
    version = f", version {persona['version']}" if persona["version"] is not None else ""
    why = f": {persona['why']}" if persona["why"] else ""
    yield f"Persona: {persona['name']}{version}{why}."
    yield f"I was shown: {_describe_context(story['context'])}."
    if memories:
        yield f"Memories, with how well they fit: {'; '.join(memories)}."
    if tools := story["tools"]:
        yield f"Tools I had: {_some(tools['offered'])}."
        yield from (f"Not {_some(names)}: {rule}." for rule, names in tools["removed"].items())
    calls = [call for wave in story["waves"] or () for call in wave["calls"]]
    if calls:
        uses = _some([f"{call['tool']} ({call['outcome'] or 'no result'})" for call in calls])
        yield f"Tools I used: {uses}."
    if story["routes"]:
        tried = _some([f"{route['route']} {route['outcome']}, {route['seconds']} s" for route in story["routes"]])
        yield f"Models: {tried}."
    dollars = "an unknown price" if story["dollars"] is None else f"{story['dollars']} $"
    yield f"It cost you {budget['spent'] or 0:,} tokens, {dollars}."
    yield from (f"Budget: {admission['refusal']}" for admission in budget["admissions"] or () if "refusal" in admission)
    # The budgets of others are not this person's concern.
    own = [limit for limit in budget["limits"] or () if limit["limit"] == "person"]
    for row in own:
        limit = "any number of" if row["allowed"] is None else f"{row['allowed'] + row['granted']:,}"
        yield f"Before the last call you had used {row['used']:,} of {limit} tokens; {row['reserved']:,} were held."
    yield from (f"The reply was {delivery['status']}." for delivery in story["delivery"] or ())


def _describe_context(context: dict[str, Any]) -> str:
    history, summary = context.get("history") or {}, context.get("summary") or {}
    turns = history.get("turns", 0)
    tokens = f" ({history.get('tokens', 0):,} tokens)"
    parts = [_count(turns, "earlier turn") + tokens if turns else "no earlier turns"]
    if context.get("turns_left_out"):
        parts.append(f"of {_count(context['turns_left_out'], 'older turn')} not the words")
    if summary.get("tokens"):
        parts.append(f"a summary of what was before ({summary['tokens']:,} tokens)")
    for name, one, several in (("memories", "memory", "memories"), ("image_ids", "picture", "pictures")):
        if context.get(name):
            parts.append(_count(len(context[name]), one, several))
    return ", ".join(parts)


def _count(number: int, one: str, several: str | None = None) -> str:
    return f"{number} {one if number == 1 else several or f'{one}s'}"


def _some(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return (", ".join(names[:MOST_NAMED]) or "none") + (f" and {more} more" if more > 0 else "")
