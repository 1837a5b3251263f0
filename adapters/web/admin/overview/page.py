"""`/admin`: how everything is."""

from starlette.responses import Response
from starlette.routing import Route

from adapters.web.admin.visit import Visit
from shared.db.statements import load_statements

statements = load_statements(__file__)


async def show_overview(visit: Visit) -> Response:
    """Show what waits and runs."""
    queue = await visit.row(statements.read_queue)
    return visit.render("overview/overview.html", title="Overview", queue=queue)


ROUTES = (Route("/admin", show_overview),)
