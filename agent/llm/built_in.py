"""Models that need no provider: how such a model enters the router."""

from collections.abc import Callable
from dataclasses import dataclass

from agent.llm.completions import Model
from agent.llm.protocols.protocol import NATIVE, Protocol
from shared.clock import Clock
from shared.settings import Settings


@dataclass(frozen=True, slots=True)
class BuiltInModel:
    """A model that needs no provider; `build` returns None when the settings do not ask for it.

    `is_only`: while it is there, no other route is used, and its requests carry the number of the call in its
    conversation. `is_fallback`: it is used when no route is configured. `can_plan`: it understands the planner's form.
    """

    name: str
    build: Callable[[Settings, Clock], Model | None]
    protocol: Protocol = NATIVE
    is_only: bool = False
    is_fallback: bool = False
    can_plan: bool = True
