"""The registration of built-in models, which need no provider."""

from collections.abc import Callable

from msgspec import Struct

from agent.llm.completions import Model
from agent.llm.protocols.protocol import NATIVE, Protocol
from shared.clock import Clock
from shared.settings import Settings


class BuiltInModel(Struct, frozen=True):
    """A model that needs no provider; `build` returns None if the settings do not enable it.

    `is_only`: if it is enabled, no other route is used, and requests contain the number of model calls so far in the
    conversation. `is_fallback`: it is used if no route is configured. `can_plan`: it can answer planner requests.
    """

    name: str
    build: Callable[[Settings, Clock], Model | None]
    protocol: Protocol = NATIVE
    is_only: bool = False
    is_fallback: bool = False
    can_plan: bool = True
