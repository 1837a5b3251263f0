"""litellm's list of models, and what models cost: by the installation's own prices, else by that list.

The list (providers, windows, abilities, prices) is read from litellm's files without importing litellm: the import
takes seconds and 170 MB, the list 50 ms, and most installations need no more than that.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from msgspec import Struct

from agent.llm.media_requests import DrawingRequest, SpeechRequest, TranscriptionRequest
from shared.db.database import Database
from shared.db.statements import load_statements
from shared.messages import COST_DIGITS, Usage

statements = load_statements(__file__)

MODELS_FILE, PROVIDERS_FILE = "model_prices_and_context_window_backup.json", "provider_endpoints_support_backup.json"
# An entry that is no model: by which patterns names of new models are known.
PATTERNS = "fallback_generalizations"
# Providers of litellm that neither of the files lists.
UNLISTED_PROVIDERS = frozenset(
    """
    a2a_agent aiohttp_openai aws_textract azure_speech charity_engine custom custom_openai dotprompt gdc humanloop
    langflow langfuse litellm_agent modelscope mongodb nadir nano-gpt nvidia_riva parasail sagemaker_nova valkey
    vertex_ai_beta
    """.split()  # noqa: SIM905  # as a list it would be twenty lines
)
PREFIX = "openai/"
# Other bare names that litellm takes for models of other providers, whatever the list says.
ELSEWHERE = re.compile(r"^amazon_nova|:.{64}$")
TIER = re.compile(r"input_cost_per_token_above_(\d+)k_tokens$")
KINDS = ("input_cost_per_token", "cache_read_input_token_cost", "output_cost_per_token")

Entry = Mapping[str, Any]


class Price(Struct, frozen=True):
    """The price of a model in US dollars, for a token of each kind and for one image."""

    input: float
    cached: float
    output: float
    image: float | None = None

    @classmethod
    def of(cls, input_price: Any, cached: Any, output: Any, *, image: Any = None, tokens: int = 1) -> "Price":
        """Return the price from those of so many `tokens`; tokens from a cache may have no price of their own."""
        cached = input_price if cached is None else cached
        dollars = [float(price) / tokens for price in (input_price, cached, output)]
        return cls(dollars[0], dollars[1], dollars[2], image=None if image is None else float(image))

    @property
    def highest(self) -> float:
        """Return US dollars for the dearest kind of token."""
        return max(self.input, self.cached, self.output)

    def cost_of(self, usage: Usage) -> float:
        """Return what these tokens cost."""
        fresh = max(0, usage.input_tokens - usage.cached_tokens)
        dollars = fresh * self.input + usage.cached_tokens * self.cached + usage.output_tokens * self.output
        return round(dollars, COST_DIGITS)


class Catalogue:
    """The list, read at its first use; names are litellm's, with or without a provider."""

    @property
    def models(self) -> Mapping[str, Entry]:
        """Return what litellm lists of each model, by its name."""
        return _list_models()

    @cached_property
    def providers(self) -> frozenset[str]:
        """Return the providers that a name may begin with."""
        file_providers = _read(PROVIDERS_FILE)["providers"]
        model_providers = {
            str(entry["litellm_provider"]) for entry in self.models.values() if "litellm_provider" in entry
        }
        return frozenset({*file_providers, *model_providers, *UNLISTED_PROVIDERS})

    @cached_property
    def names(self) -> frozenset[str]:
        """Return the names of all models, with and without their provider."""
        models = {f"{of}/{name}" for name, entry in self.models.items() if (of := entry.get("litellm_provider"))}
        return frozenset({*self.models, *models})

    def find(self, name: str) -> Entry:
        """Return the entry of a model; empty if it is not listed."""
        bare = name.removeprefix(PREFIX)
        return self.models.get(bare) or self.models.get(bare.partition("/")[2]) or {}

    def find_provider(self, name: str) -> str | None:
        """Return the provider of a model; None if the name tells none."""
        prefix, slash, _ = name.partition("/")
        if slash and prefix in self.providers:
            return prefix
        if provider := self.models.get(name, {}).get("litellm_provider"):
            return str(provider)
        patterns = (rule for rule in _read(MODELS_FILE).get(PATTERNS, {}).get("rules", ()) if "pattern" in rule)
        matches = (
            rule["model_info"]["litellm_provider"]
            for rule in patterns
            if "litellm_provider" in rule["model_info"] and re.search(rule["pattern"], name)
        )
        return next(matches, "another" if ELSEWHERE.search(name) else None)

    def find_price(self, name: str, prompt_tokens: int) -> Price | None:
        """Return the price of a model for a prompt of this length; None if it is not listed."""
        entry = self.find(name)
        if "input_cost_per_token" not in entry or "output_cost_per_token" not in entry:
            return None
        tiers = sorted((int(match[1]) for key in entry if (match := TIER.match(key))), reverse=True)
        tier = next((f"_above_{above}k_tokens" for above in tiers if prompt_tokens > above * 1000), "")
        return Price.of(*(entry.get(f"{kind}{tier}", entry.get(kind)) for kind in KINDS))


@cache
def _read(name: str) -> Mapping[str, Entry]:
    spec = find_spec("litellm")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("litellm is not installed")
    entries: Mapping[str, Entry] = json.loads((Path(spec.origin).parent / name).read_bytes())
    return entries


@cache
def _list_models() -> Mapping[str, Entry]:
    return {name: entry for name, entry in _read(MODELS_FILE).items() if name not in {PATTERNS, "sample_spec"}}


MILLION = 1_000_000


class Prices(dict[str, Price]):
    """The rows of `model_prices` as this process has last read them, by the name of the model; one per process."""

    async def refresh(self, database: Database) -> None:
        """Read the table anew."""
        async with database.statement() as session:
            rows = (await session.execute(statements.list_prices)).all()
        self.clear()
        self.update(
            {
                row.model: Price.of(
                    row.input_per_million,
                    row.cached_per_million,
                    row.output_per_million,
                    image=row.per_image,
                    tokens=MILLION,
                )
                for row in rows
            }
        )


class Pricing:
    """Prices in US dollars.

    `litellm`, which knows more kinds of prices than its list shows, is None until it is loaded; `unpriced` are the
    models that it was found not to know.
    """

    def __init__(self, own: Prices, catalogue: Catalogue) -> None:
        self._own, self._catalogue = own, catalogue
        self.litellm: Any = None
        self._faults: tuple[type[Exception], ...] = ()
        self.unpriced: set[str] = set()

    def use(self, litellm: Any, faults: tuple[type[Exception], ...]) -> None:
        """Use litellm, which is loaded now; `faults` are what it raises."""
        self.litellm, self._faults = litellm, faults

    def both(self, name: str) -> float:
        """Return the price of a token of the prompt and one of the answer together; infinite if it is unknown."""
        own = self._own.get(name)
        if own is not None:
            return own.input + own.output
        return sum(prices) if (prices := self._list(name)) else math.inf

    def highest(self, name: str) -> float | None:
        """Return the price of the dearest kind of token."""
        own = self._own.get(name)
        return own.highest if own is not None else max(self._list(name), default=None)

    def _list(self, name: str) -> list[float]:
        entry = self._catalogue.find(name)
        prices = entry.get("input_cost_per_token"), entry.get("output_cost_per_token")
        return [float(price) for price in prices if price is not None]

    def listed(self, name: str, usage: Usage) -> Usage:
        """Return the usage with its cost by the installation's own prices or by litellm's list."""
        price = self._own.get(name) or self._catalogue.find_price(name, usage.input_tokens)
        return replace(usage, cost=None if price is None else price.cost_of(usage))

    def priced(self, name: str, model: str, usage: Usage, **media: Any) -> Usage:
        """Return the usage with its cost; `model` is litellm's name, `media` what is paid for besides tokens."""
        own = self._own.get(name)
        if own is not None:
            return replace(usage, cost=own.cost_of(usage))
        try:
            prices = self.litellm.cost_per_token(
                model=model,
                prompt_tokens=usage.input_tokens,
                completion_tokens=usage.output_tokens,
                cache_read_input_tokens=usage.cached_tokens,
                **media,
            )
        except (self.litellm.exceptions.ModelNotMappedError, *self._faults):
            self.unpriced.add(model)
            return usage
        return replace(usage, cost=round(sum(prices), COST_DIGITS))

    def of_media(self, request: TranscriptionRequest | SpeechRequest, model: str, usage: Usage) -> float | None:
        """Return the price of a recording or of speech, by its length where litellm says so."""
        own = self._own.get(request.model)
        if own is not None:
            return own.cost_of(usage)
        return self.priced(request.model, model, Usage(), **request.paid_for).cost or None

    def of_image(self, request: DrawingRequest, model: str, answer: Any) -> float | None:
        """Return the price of an image; without the provider's `answer`, of one by its size."""
        own = self._own.get(request.model)
        if own is not None:
            usage = request.estimated if answer is None else request.to_usage(answer.usage, None)
            return own.cost_of(usage) if own.image is None else own.image
        response = self.litellm.ImageResponse(data=[{}]) if answer is None else answer
        try:
            price = self.litellm.completion_cost(
                completion_response=response, model=model, call_type="image_generation", size=request.size, n=1
            )
        # litellm raises bare exceptions for models whose price it does not know.
        except Exception:  # noqa: BLE001
            return None
        return round(float(price), COST_DIGITS) or None
