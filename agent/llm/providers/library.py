"""Imports litellm and sets it up: no telemetry, no retries, no log of texts."""

import warnings
from typing import Any

from msgspec import Struct

from agent.llm.completions import NO_TOOL
from agent.llm.providers.streaming import STREAM_FAULTS
from shared.http.litellm import import_quietly

OLLAMA = frozenset({"ollama", "ollama_chat"})
OWN_MODEL = {"mode": "chat", "input_cost_per_token": 0.0, "output_cost_per_token": 0.0}


class Library(Struct, frozen=True):
    """litellm, available once it is imported; `faults` are what calls raise, `stream_faults` what streams do."""

    litellm: Any
    faults: tuple[type[Exception], ...]
    stream_faults: tuple[type[Exception], ...]

    def know(self, model: str) -> None:
        """List a model of Ollama: about others, litellm asks its server, and blocks the event loop meanwhile."""
        provider = model.partition("/")[0]
        if provider in OLLAMA:
            # `register_model` would ask, too.
            self.litellm.model_cost.setdefault(model, {"litellm_provider": provider, **OWN_MODEL})


def import_litellm() -> Library:
    """Import litellm, which takes seconds, and set it up for our calls."""
    litellm = import_quietly()
    import httpx
    from openai import OpenAIError

    litellm.drop_params = True
    litellm.num_retries = 0
    # litellm's errors are OpenAI's; those of httpx come from providers whose errors it does not translate.
    faults = (OpenAIError, httpx.HTTPError)
    with warnings.catch_warnings():
        # pydantic builds litellm's models at their first use, with a warning about a type of theirs.
        warnings.simplefilter("ignore")
        # Load what litellm would import in its first call, some 300 modules, on the event loop; no
        # request is sent.
        messages = [{"role": "user", "content": "warm"}]
        for stream in (False, True):
            answer = litellm.completion(
                "hosted_vllm/warm",
                messages,
                tools=[NO_TOOL],
                mock_response="warm",
                api_base="http://[::1]",
                stream=stream,
            )
            list(answer if stream else ())
    return Library(litellm, faults, (*faults, *STREAM_FAULTS))
