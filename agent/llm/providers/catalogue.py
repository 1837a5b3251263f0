"""litellm's list of models: providers, windows, abilities and prices, read from its files without importing litellm.

The import takes seconds and 170 MB; the list takes 50 ms, and most installations need no more than that.
"""

import json
import re
from collections.abc import Mapping
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from shared.messages import COST_DIGITS, Usage

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


class Catalogue:
    """The list, read at its first use; names are litellm's, with or without a provider."""

    @cached_property
    def models(self) -> Mapping[str, Entry]:
        """Return what litellm lists of each model, by its name."""
        return {name: entry for name, entry in self._entries.items() if name not in {PATTERNS, "sample_spec"}}

    @cached_property
    def providers(self) -> frozenset[str]:
        """Return the providers that a name may begin with."""
        file_providers = json.loads((self._folder / PROVIDERS_FILE).read_bytes())["providers"]
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
        patterns = (rule for rule in self._entries.get(PATTERNS, {}).get("rules", ()) if "pattern" in rule)
        matches = (
            rule["model_info"]["litellm_provider"]
            for rule in patterns
            if "litellm_provider" in rule["model_info"] and re.search(rule["pattern"], name)
        )
        return next(matches, "another" if ELSEWHERE.search(name) else None)

    def find_cost(self, name: str, usage: Usage) -> float | None:
        """Return the price of these tokens in US dollars; None if it is not listed."""
        entry = self.find(name)
        if "input_cost_per_token" not in entry or "output_cost_per_token" not in entry:
            return None
        tiers = sorted((int(match[1]) for key in entry if (match := TIER.match(key))), reverse=True)
        tier = next((f"_above_{above}k_tokens" for above in tiers if usage.input_tokens > above * 1000), "")
        # Without a price for cached tokens they cost as much as fresh ones.
        base, cached, output = (entry.get(f"{kind}{tier}", entry.get(kind)) for kind in KINDS)
        fresh_tokens = max(0, usage.input_tokens - usage.cached_tokens)
        dollars = fresh_tokens * float(base) + usage.output_tokens * float(output)
        return round(dollars + usage.cached_tokens * float(base if cached is None else cached), COST_DIGITS)

    @cached_property
    def _folder(self) -> Path:
        spec = find_spec("litellm")
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError("litellm is not installed")
        return Path(spec.origin).parent

    @cached_property
    def _entries(self) -> Mapping[str, Entry]:
        entries: Mapping[str, Entry] = json.loads((self._folder / MODELS_FILE).read_bytes())
        return entries
