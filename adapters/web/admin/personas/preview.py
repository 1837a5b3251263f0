"""What a persona would do as it stands in the form: where it answers, with which tools, and how long its prompt is."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from adapters.web.admin.personas.draft import to_fields
from adapters.web.admin.visit import Visit
from adapters.web.texts import say
from agent.llm.completions import count_prompt
from agent.people.module_rules import list_module_rules
from agent.people.participants import to_persona
from agent.people.personas import with_fields
from agent.tools.offer import Offer, Scope
from shared.db.statements import load_statements
from shared.messages import Caller, Permission, Place

statements = load_statements(__file__)


class Preview(Struct, frozen=True):
    """What applies: where it answers, who does there now, the tokens of its prompt, what each level is offered."""

    where: str
    neighbour: Any
    prompt_tokens: int
    offers: Sequence[tuple[str, Offer]]


async def build_preview(visit: Visit, parameters: Mapping[str, Any]) -> Preview:
    """Return what these parameters of a persona come to."""
    place = Place(parameters["platform"] or "web", parameters["server"], parameters["channel"] or "preview")
    where = {"platform": parameters["platform"], "server": parameters["server"], "channel": parameters["channel"]}
    neighbour = (await visit.rows(statements.find_neighbour, **where)) if parameters["platform"] else []
    async with visit.app.database.statement() as session:
        modules = await list_module_rules(session)
    offers = []
    for permission in (Permission.GUEST, Permission.USER, Permission.ADMIN):
        persona = replace(to_persona(None, permission, visit.app.settings), id=0)
        scope = Scope(
            Caller(visit.admin.user.id, permission, name=visit.admin.user.name, time_zone="UTC"),
            with_fields(persona, to_fields(parameters)),
            place,
            modules=modules,
        )
        offers.append((permission.label, visit.app.toolbox.offered_to(scope)))
    prompt = [{"role": "system", "content": parameters["system_prompt"]}]
    return Preview(
        to_where(parameters),
        neighbour=neighbour[0] if neighbour else None,
        prompt_tokens=count_prompt(prompt),
        offers=offers,
    )


def to_where(parameters: Mapping[str, Any]) -> str:
    """Return in words where a persona answers."""
    place = {"platform": parameters["platform"] or say("admin.no_platform")}
    if parameters["channel"]:
        return say("admin.in_channel_of_platform", channel=parameters["channel"], **place)
    if parameters["server"]:
        return say("admin.on_server_of_platform", server=parameters["server"], **place)
    if parameters["platform"]:
        return say("admin.everywhere_on_platform", **place)
    return say("admin.wherever") if parameters["is_default"] else say("admin.nowhere")
