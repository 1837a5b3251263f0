"""litellm, which asks providers by their own protocols: without telemetry and its log of texts."""

import logging
from contextlib import suppress
from typing import Any

from shared.log import drop_handlers
from shared.settings import prepare_litellm_environment

LOGGERS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")
MOST_TRIES = 10


def import_quietly() -> Any:
    """Import litellm, which takes seconds."""
    prepare_litellm_environment()
    import litellm

    litellm.telemetry = False
    litellm.suppress_debug_info = True
    for name in LOGGERS:
        # litellm logs the text of requests and answers.
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    drop_handlers(*LOGGERS)
    return litellm


async def close_clients(litellm: Any) -> None:
    """Close the connections that litellm keeps, and forget them: who asks a provider next would be given these."""
    for _ in range(MOST_TRIES):
        # Others may open some meanwhile, or close these, which litellm does not expect.
        with suppress(RuntimeError):
            await litellm.close_litellm_async_clients()
            break
    litellm.in_memory_llm_clients_cache.flush_cache()
