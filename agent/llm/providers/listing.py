"""The names of models that litellm lists."""

from typing import Any


def list_models(litellm: Any, *, has_own_server: bool) -> tuple[frozenset[str], frozenset[str]]:
    """Return the models that litellm lists, with and without their provider, and the providers that may have others.

    The provider `*` stands for names without a provider, when they go to a server of one's own.
    """
    providers = {str(getattr(each, "value", each)) for each in litellm.provider_list}
    models = set(litellm.model_cost)
    models |= {f"{of}/{name}" for name, each in litellm.model_cost.items() if (of := each.get("litellm_provider"))}
    return frozenset(models), frozenset({*providers, "*"} if has_own_server else providers)
