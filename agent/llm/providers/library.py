"""Imports litellm and sets it up: no telemetry, no retries, no log of texts."""

import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from agent.llm.completions import NO_TOOL
from agent.llm.providers.streaming import STREAM_FAULTS
from shared.log import drop_handlers
from shared.settings import prepare_litellm_environment

LOGGERS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")

# What litellm's log of a call asks for and we have no use for.
EMPTY_LOG: dict[str, Any] = {"messages": [], "stream": False, "litellm_call_id": "", "function_id": "", "kwargs": {}}


@dataclass(frozen=True, slots=True)
class Library:
    """The parts of litellm that we use, available once it is imported."""

    litellm: Any
    timeout: Any
    is_internal_call: Any
    log: Callable[..., Any]
    faults: tuple[type[Exception], ...]
    stream_faults: tuple[type[Exception], ...]


def import_litellm() -> Library:
    """Import litellm, which takes seconds, and set it up for our calls."""
    prepare_litellm_environment()
    import httpx
    import litellm
    from litellm._internal_context import is_internal_call
    from litellm.litellm_core_utils.litellm_logging import Logging
    from litellm.llms.base_llm.chat.transformation import BaseLLMException
    from litellm.types.utils import Delta, ModelResponseStream, StreamingChoices
    from openai import OpenAIError

    _silence(litellm)

    class Unpriced(Logging):
        # litellm computes the price twice for its own log, a third of the call's CPU time; we compute it ourselves.
        def response_cost_calculator(self, *_args: object, **_kwargs: object) -> None:
            return None

    faults = (OpenAIError, BaseLLMException, httpx.HTTPError)
    with warnings.catch_warnings():
        # pydantic builds these models at their first use, with a warning about a type of litellm's.
        warnings.simplefilter("ignore")
        ModelResponseStream(choices=[StreamingChoices(delta=Delta(content=""))])
        is_internal_call.set(True)
        _warm(litellm)
    return Library(
        litellm=litellm,
        timeout=httpx.Timeout,
        is_internal_call=is_internal_call,
        log=partial(Unpriced, call_type="acompletion", **EMPTY_LOG),
        faults=faults,
        stream_faults=(*faults, *STREAM_FAULTS),
    )


def _silence(litellm: Any) -> None:
    litellm.telemetry = False
    litellm.suppress_debug_info = True
    litellm.drop_params = True
    litellm.num_retries = 0
    for name in LOGGERS:
        # litellm logs the text of requests and answers.
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    drop_handlers(*LOGGERS)


def _warm(litellm: Any) -> None:
    """Load what litellm would import in its first call, some 300 modules, on the event loop; no request is sent."""
    message = {"role": "user", "content": "warm"}
    litellm.completion("hosted_vllm/warm", [message], tools=[NO_TOOL], mock_response="warm", api_base="http://[::1]")
    litellm.main.encoding.encode("warm")
