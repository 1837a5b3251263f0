"""The optional built-in models and text protocols: each can be removed by deleting its folder and its entry here."""

from collections.abc import Mapping

from agent.llm.built_in import BuiltInModel
from agent.llm.offline.model import OFFLINE_MODEL
from agent.llm.protocols.protocol import NATIVE, Protocol
from agent.llm.scripted.model import SCRIPTED_MODEL
from agent.llm.text_protocols.writer import TEXT_PROTOCOLS

BUILT_IN_MODELS: tuple[BuiltInModel, ...] = (
    OFFLINE_MODEL,
    SCRIPTED_MODEL,
)
# The keys are the names used in `LLM_PROTOCOLS`.
PROTOCOLS: Mapping[str, Protocol] = {
    "native": NATIVE,
    **TEXT_PROTOCOLS,
}


def build_protocols(chosen: Mapping[str, str]) -> dict[str, Protocol]:
    """Return the protocols that are configured in `LLM_PROTOCOLS`, and those of the built-in models, by route.

    Any other route uses native tool calling. Names with and without the prefix `openai/` mean the same model.
    """
    bare = {name.removeprefix("openai/"): PROTOCOLS[protocol] for name, protocol in chosen.items()}
    bare |= {entry.name: entry.protocol for entry in BUILT_IN_MODELS}
    return bare | {f"openai/{name}": protocol for name, protocol in bare.items()}
