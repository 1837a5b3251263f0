"""What a person chooses for a chat of the page: who answers, and the model that is tried first."""

import json
import os
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from adapters.web.api.bodies import Closed
from adapters.web.faults import Fault
from adapters.web.texts import say
from agent.app import App
from agent.people.participants import ResolvedUser, resolve_conversation, resolve_user
from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.messages import Permission, Place, Sender
from shared.settings import Settings, find_env_file
from shared.text import MAX_ID

statements = load_statements(__file__)

NOT_OPEN = say("chat.not_open")


class Choices(Closed):
    """Who shall answer in a chat, and by what model; null: as if nothing was chosen. What is left out stays."""

    persona_id: Annotated[int, Field(strict=True, ge=1, le=MAX_ID)] | None = None
    model: Annotated[str, StringConstraints(strict=True, min_length=1, max_length=200)] | None = None


async def list_offer(session: Session, app: App, user: ResolvedUser | None) -> dict[str, Any]:
    """Return what this person may choose among, the default first, and what an empty chat suggests to say.

    A list is empty where there is nothing to choose.
    """
    permission = Permission.GUEST if user is None else user.permission
    row = (await session.execute(statements.list_offer, {"permission": permission.label})).one()
    # A model that the settings do not name any more is not asked.
    models = [model for model in app.settings.llm_models if model in (row.models or ())]
    own = row.model or next(iter(app.settings.llm_models), None)
    default = {"name": row.name or "Parley", "picture": row.picture}
    return {
        "persona": default,
        "suggestions": row.suggestions or [],
        "personas": [{"id": None} | default, *row.personas] if row.personas else [],
        "models": [{"id": None, "name": own}, *({"id": model, "name": model} for model in models)]
        if set(models) - {own}
        else [],
    }


async def read_choices(session: Session, place: Place) -> dict[str, Any]:
    """Return what is chosen for a chat."""
    row = (await session.execute(statements.read_choices, {"channel": place.channel})).one_or_none()
    return {"persona_id": row and row.chosen_persona_id, "model": row and row.chosen_model}


async def choose_first(app: App, sender: Sender, place: Place, *, choices: Choices | None) -> None:
    """Choose what comes with the first message of a chat."""
    if choices is not None:
        async with app.database.transaction() as session:
            user = await resolve_user(session, sender)
            await choose(session, app, place, user_id=user.id, conversation_id=None, choices=choices)


async def choose(
    session: Session, app: App, place: Place, *, user_id: int, conversation_id: int | None, choices: Choices
) -> None:
    """Choose for a chat, whose conversation is made if it has none; raises a 404 for what is not open to the person."""
    if choices.model is not None and choices.model not in app.settings.llm_models:
        raise Fault(404, "not_found", NOT_OPEN)
    if conversation_id is None:
        conversation_id = (await resolve_conversation(session, user_id, None, place=place)).id
    parameters = {"conversation_id": conversation_id, "user_id": user_id}
    chosen = json.dumps(choices.model_dump(include=choices.model_fields_set))
    if not (await session.execute(statements.choose, parameters | {"choices": chosen})).scalar_one():
        raise Fault(404, "not_found", NOT_OPEN)


def has_model(settings: Settings) -> bool:
    """Tell whether anything but the offline model answers."""
    return bool(settings.llm_models) or settings.debug_mock_responses is not None


def can_set_up(settings: Settings, user: ResolvedUser | None) -> bool:
    """Tell whether this person may name the first model on the page: an owner, where `.env` can be written."""
    is_owner = user is not None and user.permission >= Permission.OWNER
    # A file in the same folder takes its place.
    return is_owner and not has_model(settings) and os.access(find_env_file().absolute().parent, os.W_OK)
