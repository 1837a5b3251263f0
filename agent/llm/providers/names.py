"""Whether a model's name is right: by what its server offers, else by litellm's list of models."""

from difflib import get_close_matches

from msgspec import Struct

from agent.llm.providers.catalogue import PREFIX, Catalogue
from agent.llm.providers.openai_api import OpenAIServer

LIST_SECONDS = 10.0
# How near a name must be to be suggested: of a server's own models, and of the thousands that litellm lists.
NEAR, NEAR_OF_MANY = 0.5, 0.8
MOST = 3


class UnknownName(Struct, frozen=True):
    """A model that its server does not offer, or (not `is_certain`) that litellm does not list; with names like it."""

    nearest: tuple[str, ...]
    is_certain: bool


async def find_unknown(name: str, server: OpenAIServer, catalogue: Catalogue) -> UnknownName | None:
    """Return what is wrong with the name of a model of this server; None if it is right, or cannot be told."""
    bare = name.removeprefix(PREFIX)
    try:
        models = await server.list_models(LIST_SECONDS)
    except server.faults:
        return find_unlisted(name, catalogue) if server.is_openai else None
    # Ollama names what it has with a tag, Google with a folder.
    forms = ((model, model.removesuffix(":latest"), model.removeprefix("models/")) for model in models)
    if not models or any(bare in names for names in forms):
        return None
    return UnknownName(tuple(get_close_matches(bare, models, n=MOST, cutoff=NEAR) or sorted(models)[:MOST]), True)


def find_unlisted(name: str, catalogue: Catalogue) -> UnknownName | None:
    """Return the names like this one, when litellm does not list it; None if it does."""
    if catalogue.find(name):
        return None
    return UnknownName(tuple(get_close_matches(name, catalogue.names, n=MOST, cutoff=NEAR_OF_MANY)), False)
