"""`parley explain TURN`: everything about a turn, for operators, as `admin.explain_turn` tells it."""

import re
from typing import TYPE_CHECKING, Any

import typer

from adapters.cli.console import is_json, say, show_json, show_table
from adapters.cli.opening import in_transaction
from shared.db.statements import load_statements

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

    from shared.settings import Settings

statements = load_statements(__file__)

app = typer.Typer()
SHOWN_CHARS = 200
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
# What of the prompt has words of its own.
CONTEXT = ("history", "turns_left_out", "summary", "image_ids", "replied_to_turn", "earlier_messages")
# The lists of the story that are shown as tables, in this order.
TABLES = (
    "inbox",
    "steps",
    "waves",
    "long_results",
    "memories",
    "routes",
    "model_calls",
    "admissions",
    "limits",
    "agents",
    "confirmations",
    "files",
    "delivery",
)


@app.command("explain")
def explain_turn(
    turn: int = typer.Argument(metavar="TURN", min=1, max=2**63 - 1, help="The turn's number."),
    full: bool = typer.Option(False, "--full", help="Show every text whole."),
) -> None:
    """Tell all about a turn: persona, tools, prompt, budget, routes, tool calls, cost, delivery."""

    async def work(session: "AsyncSession", _settings: "Settings") -> Any:
        return await session.scalar(statements.explain_turn, {"turn": turn})

    story = in_transaction(work)
    if is_json():
        show_json(story)
        return
    _show_turn(story)
    if (tools := story["tools"]) is not None:
        say(f"{'tools':13} {', '.join(tools['offered']) or 'none'}")
        if tools["found_by_search"]:
            say(f"{'by search':13} {', '.join(tools['found_by_search'])}: there was no room for them")
        for rule, names in tools["removed"].items():
            say(f"{'removed':13} {', '.join(names)}: {rule}")
    for part, words in _list_context(story["context"]):
        say(f"{part:13} {words}")
    tables = story | story["budget"] | {"memories": story["context"].get("memories")}
    for name in TABLES:
        rows = tables[name] or []
        say(f"\n{name.replace('_', ' ')}{'' if rows else ': none'}")
        if rows:
            columns = list(dict.fromkeys(column for row in rows for column in row))
            values = [[row.get(column) for column in columns] for row in rows]
            cells = [["" if value in (None, "") else _to_words(value) for value in line] for line in values]
            if not full:
                cells = [
                    [
                        text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}… ({len(text):,} characters)"
                        for text in line
                    ]
                    for line in cells
                ]
            show_table([column.replace("_", " ") for column in columns], cells)


def _show_turn(story: dict[str, Any]) -> None:
    turn, place, person, persona = story["turn"], story["place"], story["person"], story["persona"]
    where = " / ".join(place[part] for part in ("platform", "server", "channel", "thread") if place[part])
    takeovers = f", attempt {turn['attempt']}" if turn["attempt"] > 1 else ""
    description = str(persona["name"])
    if persona["version"] is not None:
        description += f", version {persona['version']}"
        if persona["is_deleted"]:
            description += " (deleted since)"
        elif persona["newest_version"] != persona["version"]:
            description += f" (now it is version {persona['newest_version']})"
    dollars = story["dollars"]
    price = "of unknown price" if dollars is None else f"{dollars:.6f}".rstrip("0").rstrip(".") + " $"
    lines = {
        "turn": f"{turn['id']}: {turn['status']}{takeovers}, {turn['seconds']} s",
        "place": f"{where} (conversation {place['conversation']})",
        "user": f"{person['id']}, {person['permission']}" if person else "deleted, no permission",
        "agent": f"{turn['agent']}, asked in turn {turn['parent_turn']} by the call {turn['parent_call']}",
        "persona": f"{description}: {persona['why']}" if persona["why"] else description,
        "model": f"{turn['model'] or 'none answered'}, {turn['model_calls']} calls",
        "mode": f"{turn['mode']}, waves of tools: {turn['waves']}",
        "started": turn["started_at"][:19].replace("T", " "),
        "cost": f"{story['budget']['spent'] or 0} tokens, {price}",
        "held budget": f"{story['budget']['held'] or 'none'}",
        "complete": "no: the answer was given before the work was done",
        "error": f"{turn['error'] or '-'}: {turn['cause'] or 'no cause noted'}",
        "stop": "asked for by the person",
    }
    conditions = {
        "agent": turn["parent_turn"],
        "complete": turn["complete"] is False,
        "error": turn["error"] or turn["cause"],
        "stop": turn["stop_requested"],
    }
    for name, line in lines.items():
        if conditions.get(name, True):
            say(f"{name:13} {line}" if name != "held budget" else f"{name}: {line}")


def _list_context(context: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the parts of the prompt by their names, in words; memories have scores, and are a table."""
    history, summary = context.get("history") or {}, context.get("summary") or {}
    images, replied_to = context.get("image_ids") or (), context.get("replied_to_turn")
    earlier, left_out = context.get("earlier_messages") or 0, context.get("turns_left_out") or 0
    words = {
        "history": _count(
            history["turns"], "turn", f", from turn {history['first_turn']} on, {history['tokens']} tokens"
        )
        if history.get("turns")
        else "none: the conversation begins here",
        "left out": _count(left_out, "turn", ", which the summary holds or for which there was no room")
        if left_out
        else "nothing",
        "summary": f"of what was said up to turn {summary['up_to_turn']}, {summary['tokens']} tokens"
        if summary.get("up_to_turn")
        else "none",
        "images": ", ".join(f"file {image}" for image in images) or "none",
        "replies to": f"the message of turn {replied_to}" if replied_to else "no other message",
        "before it": _count(earlier, "message", " of others, which were not for Parley")
        if earlier
        else "no other message",
    }
    others = {
        name.replace("_", " "): _to_words(value)
        for name, value in context.items()
        if name not in {*CONTEXT, "memories"}
    }
    return [*words.items(), *others.items()]


def _count(number: int, noun: str, rest: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}{rest}"


def _to_words(value: Any) -> str:
    """Return a value of JSON in plain words."""
    if value in (None, "", [], {}):
        return "none"
    match value:
        case bool():
            return "yes" if value else "no"
        case dict():
            return ", ".join(f"{name.replace('_', ' ')} {_to_words(part)}" for name, part in value.items())
        case list():
            return "; ".join(_to_words(part) for part in value)
        case str() if TIMESTAMP.match(value):
            return f"{value[:10]} {value[11:19]}"
    return str(value)
