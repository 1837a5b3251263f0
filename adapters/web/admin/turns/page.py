"""`/admin/turns`: the turns, newest first, and why one of them went as it did."""

from datetime import datetime, time
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from adapters.web.admin.turns.timeline import Timeline
from adapters.web.admin.visit import ROWS, Visit
from adapters.web.texts import say
from agent.journal.explanation import list_context, list_facts, list_tools
from shared.db.statements import load_statements
from shared.text import MAX_ID, to_id

statements = load_statements(__file__)

STATUSES = ("running", "answered", "refused", "failed", "cancelled")


async def show_turns(visit: Visit) -> Response:
    """Show a page of turns; the first one follows what happens."""
    rows = await visit.rows(statements.list_turns, rows=ROWS + 1, before=visit.cursor(), **await read_filters(visit))
    return visit.render(
        "turns/turns.html",
        title=say("admin.turns"),
        rows=rows[:ROWS],
        last=rows[ROWS - 1].id if len(rows) > ROWS else None,
        is_live=not visit.query("before"),
        statuses=STATUSES,
        choices=await visit.row(statements.list_choices),
    )


async def read_filters(visit: Visit) -> dict[str, Any]:
    """Return what the address chooses from the turns; raises a 404 for a status that there is not."""
    status, person, persona = visit.query("status") or None, visit.query("person"), visit.query("persona")
    if status is not None and status not in STATUSES:
        raise HTTPException(404)
    since = visit.day("since")
    people = None
    if person:
        # What is a number is no part of a name.
        name = None if person.isdecimal() else person
        rows = await visit.rows(statements.find_people, text=person, number=to_number(person), name=name)
        people = [row.id for row in rows]
    return {
        "status": status,
        "model": visit.query("model") or None,
        "error": visit.query("error") or None,
        "place": visit.query("place") or None,
        "persona": to_number(persona) if persona else None,
        "since": None if since is None else datetime.combine(since, time(), visit.zone),
        "people": people,
    }


def to_number(text: str) -> int:
    """Return a row's number, one that no row has if the text is none."""
    return to_id(text) or MAX_ID


async def show_turn(visit: Visit) -> Response:
    """Show why a turn went as it did, as `parley explain` tells it; without the words of others' direct messages."""
    (story,) = await visit.row(statements.explain_turn, turn=visit.path_params["turn"])
    if story is None:
        raise HTTPException(404)
    person = story["person"]
    is_private = story["place"]["is_direct"] and (person is None or person["id"] != visit.admin.user.id)
    return visit.render(
        "turns/turn.html",
        title=say("admin.turn_id", id=story["turn"]["id"]),
        story=story,
        facts=list(list_facts(story)),
        context=[*list_tools(story), *list_context(story)],
        is_private=is_private,
        timeline=Timeline(story, frozenset() if is_private else visit.open_modules, has_texts=not is_private),
    )


ROUTES = (Route("/admin/turns", show_turns), Route("/admin/turns/{turn:int}", show_turn))
