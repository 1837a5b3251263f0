"""Which model answers, in one sentence, with the remedy if it is only the offline one."""

from typing import TYPE_CHECKING

from adapters.cli.console import name_command, shorten
from shared.errors import ConfigurationError
from shared.settings import find_env_file

if TYPE_CHECKING:
    from shared.settings import Settings


def describe_remedy() -> str:
    """Return how to come to a real model."""
    return (
        f"For a real model: {name_command('setup')}, or two lines in {shorten(find_env_file())} and start again:  "
        "LLM_MODELS=gpt-4o-mini  and  OPENAI_API_KEY=…  "
        "(any provider that litellm knows; OPENAI_BASE_URL for a server of your own)."
    )


def is_offline(settings: "Settings") -> bool:
    """Return whether only the offline model answers."""
    return not settings.llm_models and settings.debug_mock_responses is None


def describe_models(settings: "Settings") -> str:
    """Return the sentence about the models."""
    if settings.debug_mock_responses is not None:
        return "scripted answers (DEBUG_MOCK_RESPONSES)"
    if not settings.llm_models:
        return "the offline model (it understands only a few plain requests)"
    return ", then ".join(settings.llm_models)


def describe_recall(settings: "Settings") -> tuple[bool, str]:
    """Return whether memories are found as the settings want it, and by what, with the remedy if they are not."""
    from shared.memory.embedders import explain_recall

    try:
        return True, explain_recall(settings)
    except ConfigurationError as error:
        return False, str(error)
