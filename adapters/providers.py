"""The providers that `parley setup` and the page offer, each with a model that is cheap and uses tools."""

from msgspec import Struct


class Provider(Struct, frozen=True):
    """A provider, the model that is offered of it, and the page where its keys are made."""

    title: str
    model: str
    keys: str


PROVIDERS = (
    Provider("OpenAI", "gpt-4o-mini", "platform.openai.com/api-keys"),
    Provider("Anthropic", "anthropic/claude-haiku-4-5", "console.anthropic.com/settings/keys"),
    Provider("Google Gemini", "gemini/gemini-2.5-flash", "aistudio.google.com/apikey"),
    Provider("Mistral", "mistral/mistral-small-latest", "console.mistral.ai/api-keys"),
    Provider("OpenRouter: many models with one key", "openrouter/google/gemini-2.5-flash", "openrouter.ai/keys"),
)
OLLAMA, OTHER = "Ollama, on this machine: no key, nothing leaves it", "Another provider, or a server of my own"
