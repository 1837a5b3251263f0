"""The settings of the module, read from variables that begin with `RESEARCH_`."""

from dataclasses import dataclass

from pydantic import SecretStr


@dataclass(frozen=True, slots=True)
class ResearchSettings:
    """Where to search: of `searxng_url`, `brave_api_key` and `tavily_api_key` the first one that is set is used."""

    searxng_url: str | None = None
    """A [SearXNG](https://docs.searxng.org) server, also on a private network; its `search.formats` have to include
    `json`."""
    brave_api_key: SecretStr | None = None
    """Key of the Brave Search API."""
    brave_url: str = "https://api.search.brave.com"
    """Another address of it."""
    tavily_api_key: SecretStr | None = None
    """Key of Tavily."""
    tavily_url: str = "https://api.tavily.com"
    """Another address of it."""
    max_page_mb: int = 5
    """Larger pages and documents are refused."""
