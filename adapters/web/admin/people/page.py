"""`/admin/people`: everybody, searched by name, number, account or platform."""

from starlette.responses import Response
from starlette.routing import Route

from adapters.web.admin.people.person import show_person
from adapters.web.admin.visit import ROWS, Visit
from adapters.web.page.chats import to_pattern
from adapters.web.texts import say
from shared.db.statements import load_statements
from shared.messages import Permission
from shared.text import to_id

statements = load_statements(__file__)

LEVELS = tuple(permission.label for permission in Permission)


async def show_people(visit: Visit) -> Response:
    """Show people, the newest first."""
    words, level, platform = visit.query("q"), visit.query("level"), visit.query("platform")
    parameters = {
        "before": visit.cursor(),
        "pattern": to_pattern(words) if words else None,
        "is_ascii": words.isascii(),
        "number": to_id(words),
        "level": level if level in LEVELS else None,
        "platform": platform or None,
        "limit": ROWS + 1,
    }
    people = await visit.rows(statements.list_people, **parameters)
    return visit.render(
        "people/people.html",
        title=say("admin.people"),
        people=people[:ROWS],
        last=people[ROWS - 1].id if len(people) > ROWS else None,
        levels=LEVELS,
        platforms=[row.platform for row in await visit.rows(statements.list_platforms)],
        is_filtered=bool(words or level or platform),
    )


ROUTES = (
    Route("/admin/people", show_people),
    Route("/admin/people/{id:int}", show_person, methods=["GET", "POST"]),
)
