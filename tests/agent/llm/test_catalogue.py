"""The list of models that is read without litellm says what litellm says."""

import pytest

from agent.llm.providers.catalogue import Catalogue
from shared.messages import Usage

catalogue = Catalogue()
OPENAI_MODELS = sorted(
    name
    for name, entry in catalogue.models.items()
    if entry.get("litellm_provider") == "openai" and entry.get("mode") == "chat" and "input_cost_per_token" in entry
)


def test_it_knows_every_provider_that_litellm_knows(loaded: None) -> None:
    import litellm

    assert {str(getattr(provider, "value", provider)) for provider in litellm.provider_list} <= catalogue.providers


def test_it_tells_openais_models_from_others_as_litellm_does(loaded: None) -> None:
    import litellm

    unlisted = ("claude-newfamily-9", "amazon_nova_x", "qwen3", "meta-llama/Llama-3", "nano-gpt/some", "replicate/x")
    names = (*OPENAI_MODELS, "claude-sonnet-4-5", "gemini/gemini-2.0-flash", *unlisted)
    for name in names:
        # litellm has no rule for this one name of its own list.
        if name.startswith("ft:o4"):
            continue
        try:
            provider = litellm.get_llm_provider(name)[1]
        except litellm.exceptions.BadRequestError:
            provider = None
        assert (catalogue.find_provider(name) == "openai") == (provider == "openai"), name
        assert (catalogue.find_provider(name) is None) == (provider is None), name


@pytest.mark.parametrize("tokens", [(1000, 0, 50), (1000, 400, 50), (300_000, 1000, 50)])
def test_it_prices_openais_models_as_litellm_does(loaded: None, tokens: tuple[int, int, int]) -> None:
    import litellm

    for name in OPENAI_MODELS:
        entry = catalogue.find(name)
        if tokens[1] and "cache_read_input_token_cost" not in entry:
            continue
        prices = litellm.cost_per_token(
            model=name,
            prompt_tokens=tokens[0],
            completion_tokens=tokens[2],
            cache_read_input_tokens=tokens[1],
            custom_llm_provider="openai",
        )
        price = catalogue.find_price(name, tokens[0])
        assert price is not None
        assert price.cost_of(Usage(*tokens)) == pytest.approx(sum(prices), abs=1e-7), name


def test_a_model_that_is_not_listed_has_no_price() -> None:
    assert catalogue.find_price("openai/my-own-model", 10) is None
    price = catalogue.find_price("gpt-4o-mini", 1_000_000)
    assert price is not None
    assert price.cost_of(Usage(1_000_000, 0, 0)) == pytest.approx(0.15)
