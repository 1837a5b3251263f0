"""The web adapter: HTTP API, chat page, file downloads, health checks."""

from adapters.web.app import build_web, serve
from agent.people.links import one_time_link

__all__ = ["build_web", "one_time_link", "serve"]
