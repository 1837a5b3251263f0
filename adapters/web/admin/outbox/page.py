"""`/admin/outbox`: replies that wait, and those that failed, which can be sent again."""

from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from adapters.web.admin.visit import ROWS, Visit, calling
from adapters.web.texts import say
from agent.commands.forms.entries import Form
from shared.db.statements import load_statements
from shared.errors import Refusal

statements = load_statements(__file__)


async def show_outbox(visit: Visit) -> Response:
    """Show what waits and what failed; send again what a form names."""
    await visit.act(ACTS)
    failed = await visit.rows(statements.list_failed, before=visit.cursor(), rows=ROWS + 1)
    return visit.render(
        "outbox/outbox.html",
        title=say("admin.outbox"),
        counts=await visit.row(statements.count_replies),
        outages=await visit.rows(statements.list_outages),
        failed=failed[:ROWS],
        last=failed[ROWS - 1].id if len(failed) > ROWS else None,
        waiting=await visit.rows(statements.list_waiting, rows=ROWS),
    )


def to_reply(form: Form) -> dict[str, Any]:
    """Return the reply that a form names; raises `Refusal` without one, for that would be all of them."""
    reply = form.number("key")
    if reply is None:
        raise Refusal(say("admin.name_the_reply"))
    return {"reply": reply}


ACTS = {
    "retry": calling(statements.retry_replies, to_reply),
    "retry-all": calling(statements.retry_replies, lambda _form: {"reply": None}),
}
ROUTES = (Route("/admin/outbox", show_outbox, methods=["GET", "POST"]),)
