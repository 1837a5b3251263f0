"""Stand-ins for providers of models over HTTP, each in its own wire format as we know it."""

from collections.abc import Mapping

from tests.standins.providers.formats import Answer, Azure, Format, HostedVLLM, Mistral, OpenAI, OpenRouter
from tests.standins.providers.native import Anthropic, Gemini, Ollama
from tests.standins.providers.server import Broken, Failure, ProviderStub, Reply, Silence

__all__ = ["FORMATS", "Answer", "Broken", "Failure", "Format", "ProviderStub", "Reply", "Silence"]

FORMATS: Mapping[str, Format] = {
    wire.name: wire
    for wire in (OpenAI(), HostedVLLM(), OpenRouter(), Azure(), Mistral(), Anthropic(), Gemini(), Ollama())
}
