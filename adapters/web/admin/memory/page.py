"""`/admin/memory`: how much is remembered; that of one person only for a reason, which the audit keeps."""

from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession
from starlette.responses import Response
from starlette.routing import Route

from adapters.web.admin.visit import Visit
from adapters.web.texts import say
from agent.commands.forms.entries import Form
from shared.db.statements import load_statements
from shared.memory.vectors import read_progress

statements = load_statements(__file__)

# Memories that one reading shows.
MOST = 200
KINDS = {"turn": say("admin.messages"), "fact": say("admin.facts"), "remembered": say("admin.as_people_asked")}
SCOPES = {
    "private": say("admin.in_direct_messages"),
    "conversation": say("admin.of_a_channel"),
    "server": say("admin.on_a_server"),
    "everywhere": say("admin.everywhere"),
}


async def show_memory(visit: Visit) -> Response:
    """Show how much is remembered, and what waits."""
    app = visit.app
    model = app.settings.embedding_model
    totals = await visit.rows(statements.list_totals)
    return visit.render(
        "memory/memory.html",
        title=say("admin.memory"),
        totals=totals,
        sums={name: sum(getattr(row, name) for row in totals) for name in ("memories", "with_vectors", "of_paused")},
        counts=await visit.row(statements.read_counts),
        progress=None if model is None else await read_progress(app.database, model),
        kinds=KINDS,
        scopes=SCOPES,
    )


async def show_person(visit: Visit) -> Response:
    """Show what is remembered of a person to whoever says why, and who has read it before."""
    person = await visit.row(statements.find_person, id=visit.path_params["id"])
    memories = list[Any]()

    async def read(session: AsyncSession, form: Form) -> str:
        account = {"platform": person.platform, "account": person.account}
        parameters = account | {"reason": form.text("reason"), "most": MOST}
        memories.extend(await session.execute(statements.read_memories, parameters))
        return say("admin.reading_is_noted", name=person.name)

    await visit.act({"read": read})
    return visit.render(
        "memory/person.html",
        title=say("admin.memory_of_name", name=person.name),
        person=person,
        memories=memories,
        most=MOST,
        readings=await visit.rows(statements.list_readings, id=person.id),
        kinds=KINDS,
        scopes=SCOPES,
    )


ROUTES = (
    Route("/admin/memory", show_memory),
    Route("/admin/memory/{id:int}", show_person, methods=["GET", "POST"]),
)
