"""The agent card: the agent's name, the address of the endpoint, and that a bearer token is required."""

from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    HTTPAuthSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)
from a2a.utils.constants import PROTOCOL_VERSION_0_3, PROTOCOL_VERSION_1_0, TransportProtocol
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from adapters.a2a.incoming import PLATFORM
from agent.app import App
from agent.people.hops import to_place
from agent.people.personas import resolve_persona
from agent.prompts import prompts
from shared import __version__
from shared.messages import Permission

SCHEME = "token"
MODES = ("text/plain", "application/octet-stream")


async def send_card(app: App, request: Request, path: str) -> Response:
    """Return the card; without `PUBLIC_URL` the endpoint's address is derived from the request."""
    async with app.database.transaction() as session:
        place = to_place(PLATFORM, "card", (), is_direct=False)
        persona = await resolve_persona(session, place, Permission.GUEST, settings=app.settings)
    base = app.settings.public_url or str(request.base_url)
    card = agent_card_to_dict(build_card(persona.name, base.rstrip("/") + path))
    return JSONResponse(card, headers={"Cache-Control": "public, max-age=60"})


def build_card(name: str, url: str) -> AgentCard:
    """Return the card of an agent whose endpoint at this address speaks both versions of the protocol."""
    generations = (PROTOCOL_VERSION_1_0, PROTOCOL_VERSION_0_3)
    return AgentCard(
        name=name,
        description=prompts().a2a.description,
        version=__version__,
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding=TransportProtocol.JSONRPC.value, protocol_version=generation)
            for generation in generations
        ],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=MODES,
        default_output_modes=MODES,
        skills=[
            AgentSkill(id="chat", name="Chat", description=prompts().a2a.skill, tags=["chat", "questions", "files"])
        ],
        security_schemes={SCHEME: SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="bearer"))},
        security_requirements=[SecurityRequirement(schemes={SCHEME: StringList()})],
    )
