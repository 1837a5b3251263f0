"""Why a turn went as it did, in words: what is made of `parley_explain_turn` for operators and admins."""

import re
from collections.abc import Iterator
from typing import Any

TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
# What of the prompt has words of its own; memories have scores, and are a table.
CONTEXT = ("history", "turns_left_out", "summary", "image_ids", "replied_to_turn", "earlier_messages", "memories")

Story = dict[str, Any]
# A name, and what is said of it.
Fact = tuple[str, str]


def list_facts(story: Story) -> Iterator[Fact]:
    """Yield the facts of the turn itself: who, where, which persona and model, when, what it cost, what went wrong."""
    turn, place, person = story["turn"], story["place"], story["person"]
    where = " / ".join(place[part] for part in ("platform", "server", "channel", "thread") if place[part])
    takeovers = f", attempt {turn['attempt']}" if turn["attempt"] > 1 else ""
    dollars = story["dollars"]
    price = "of unknown price" if dollars is None else f"{dollars:.6f}".rstrip("0").rstrip(".") + " $"
    yield "turn", f"{turn['id']}: {turn['status']}{takeovers}, {turn['seconds']} s"
    yield "place", f"{where} (conversation {place['conversation']})"
    yield "user", f"{person['id']}, {person['permission']}" if person else "deleted, no permission"
    if turn["parent_turn"]:
        yield "agent", f"{turn['agent']}, asked in turn {turn['parent_turn']} by the call {turn['parent_call']}"
    yield "persona", describe_persona(story["persona"])
    yield "model", f"{turn['model'] or 'none answered'}, {turn['model_calls']} calls"
    yield "mode", f"{turn['mode']}, waves of tools: {turn['waves']}"
    yield "started", turn["started_at"][:19].replace("T", " ")
    yield "cost", f"{story['budget']['spent'] or 0} tokens, {price}"
    yield "held budget", f"{story['budget']['held'] or 'none'}"
    if turn["complete"] is False:
        yield "complete", "no: the answer was given before the work was done"
    if turn["error"] or turn["cause"]:
        yield "error", f"{turn['error'] or '-'}: {turn['cause'] or 'no cause noted'}"
    if turn["stop_requested"]:
        yield "stop", "asked for by the person"


def describe_persona(persona: dict[str, Any]) -> str:
    """Return which persona answered, in which version, and why it did."""
    description = str(persona["name"])
    if persona["version"] is not None:
        description += f", version {persona['version']}"
        if persona["is_deleted"]:
            description += " (deleted since)"
        elif persona["newest_version"] != persona["version"]:
            description += f" (now it is version {persona['newest_version']})"
    return f"{description}: {persona['why']}" if persona["why"] else description


def list_tools(story: Story) -> Iterator[Fact]:
    """Yield the tools that were offered, and those that were not, by the rule."""
    if (tools := story["tools"]) is not None:
        yield "tools", ", ".join(tools["offered"]) or "none"
        if tools["found_by_search"]:
            yield "by search", f"{', '.join(tools['found_by_search'])}: there was no room for them"
        for rule, names in tools["removed"].items():
            yield "removed", f"{', '.join(names)}: {rule}"


def list_context(story: Story) -> Iterator[Fact]:
    """Yield the parts of the prompt by their names, in words."""
    context = story["context"]
    history, summary = context.get("history") or {}, context.get("summary") or {}
    images, replied_to = context.get("image_ids") or (), context.get("replied_to_turn")
    earlier, left_out = context.get("earlier_messages") or 0, context.get("turns_left_out") or 0
    if history.get("turns"):
        rest = f", from turn {history['first_turn']} on, {history['tokens']} tokens"
        yield "history", _count(history["turns"], "turn", rest)
    else:
        yield "history", "none: the conversation begins here"
    rest = ", which the summary holds or for which there was no room"
    yield "left out", _count(left_out, "turn", rest) if left_out else "nothing"
    if summary.get("up_to_turn"):
        yield "summary", f"of what was said up to turn {summary['up_to_turn']}, {summary['tokens']} tokens"
    else:
        yield "summary", "none"
    yield "pictures", ", ".join(f"file {image}" for image in images) or "none"
    yield "replies to", f"the message of turn {replied_to}" if replied_to else "no other message"
    rest = " of others, which were not for Parley"
    yield "before it", _count(earlier, "message", rest) if earlier else "no other message"
    for name, value in context.items():
        if name not in CONTEXT:
            yield name.replace("_", " "), to_words(value)


def to_words(value: Any) -> str:
    """Return a value of JSON in plain words."""
    if value in (None, "", [], {}):
        return "none"
    match value:
        case bool():
            return "yes" if value else "no"
        case dict():
            return ", ".join(f"{name.replace('_', ' ')} {to_words(part)}" for name, part in value.items())
        case list():
            return "; ".join(to_words(part) for part in value)
        case str() if TIMESTAMP.match(value):
            return f"{value[:10]} {value[11:19]}"
    return str(value)


def _count(number: int, noun: str, rest: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}{rest}"
