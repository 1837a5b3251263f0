"""Which chat platforms this Parley knows: every file or folder in `adapters/` that is a platform."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from shared.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agent.app import App
    from agent.queue.outbox import Reply
    from shared.settings import Settings

ADAPTERS = Path(__file__).resolve().parent.parent
# What lies in `adapters/` and is no platform with a gateway of its own.
OTHERS = frozenset({"__init__", "__pycache__", "base", "buttons", "cli", "mcp", "terminal", "web"})
TOKENS = {"discord": ("discord_token",), "slack": ("slack_bot_token", "slack_client_id")}


class Platform(Protocol):
    """One platform: `build(settings)` in its file makes it, or returns None when it is not configured."""

    platform: str

    async def listen(self, app: "App") -> None:
        """Take what people write there, until cancelled."""
        ...

    async def send(self, reply: "Reply") -> str | None:
        """Say it there and return the platform's message id."""
        ...


def list_platforms() -> list[str]:
    """Return the names of the platforms in the tree."""
    return sorted({path.stem for path in ADAPTERS.iterdir()} - OTHERS)


def list_configured(settings: "Settings") -> list[str]:
    """Return the platforms that the settings hold a token for, whether they are in the tree or not."""
    return [name for name, tokens in TOKENS.items() if any(getattr(settings, token) for token in tokens)]


async def examine_platforms(settings: "Settings") -> "AsyncIterator[tuple[str, Literal['ok', 'warn', 'fail'], str]]":
    """Yield what the configured platforms find out about themselves: `examine(settings)` in their file `doctor`."""
    for name in list_configured(settings):
        if not (ADAPTERS / name / "doctor.py").exists():
            continue
        async for level, text in import_module(f"adapters.{name}.doctor").examine(settings):
            yield name, level, text


def build_platforms(settings: "Settings") -> list[Platform]:
    """Return the platforms that are configured; the libraries of the others are not even imported."""
    known = list_platforms()
    return [build_platform(name, settings) for name in list_configured(settings) if name in known]


def build_platform(name: str, settings: "Settings") -> Platform:
    """Return one platform; raises `ConfigurationError` when there is no such one or its token is missing."""
    if name not in list_platforms():
        known = ", ".join([*list_platforms(), "web"])
        raise ConfigurationError(f"This Parley has no adapter for {name}; there are: {known}.")
    built: Platform | None = import_module(f"adapters.{name}").build(settings)
    if built is None:
        raise ConfigurationError(f"{name} is not configured; set {name.upper()}_TOKEN, see docs/{name}.md.")
    return built
