"""The settings of the module, read from variables that begin with `RESEARCH_`."""

from dataclasses import dataclass

from pydantic import SecretStr


@dataclass(frozen=True, slots=True)
class ResearchSettings:
    """Where to search: of `searxng_url`, `brave_api_key` and `tavily_api_key` the first one that is set is used."""

    searxng_url: str | None = None
    brave_api_key: SecretStr | None = None
    brave_url: str = "https://api.search.brave.com"
    tavily_api_key: SecretStr | None = None
    tavily_url: str = "https://api.tavily.com"
    max_page_mb: int = 5
