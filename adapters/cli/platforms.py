"""Discovery of chat platforms: every folder of `adapters/` with a `platform.py`; see docs/platforms.md.

Of a platform that is not configured, only `settings.py` is imported.
"""

from dataclasses import fields
from difflib import get_close_matches
from typing import TYPE_CHECKING

from adapters.folders import find_class, find_settings_class, list_folders
from adapters.settings import to_variable
from shared.errors import ConfigurationError, ParleyError, Unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from adapters.base import ChatPlatform, Finding
    from adapters.settings import PlatformSettings
    from shared.settings import Settings

# Adapters that are not chat platforms, and how to start them.
OTHERS = {
    "a2a": "it is a part of the web adapter, which answers other agents at /a2a: run `parley adapter web`",
    "kubernetes": "run `parley operator`",
    "mcp": "run `parley mcp`",
    "terminal": "run `parley chat`",
}
WEB = "web"


def read_all_settings(settings: "Settings") -> "dict[str, PlatformSettings]":
    """Return the settings of every platform; raises `ConfigurationError` for a value of the wrong type."""
    return {name: settings.of_module(find_settings_class(name), name) for name in list_folders()}


def list_setting_names() -> list[str]:
    """Return the variables of all platforms."""
    kinds = {name: find_settings_class(name) for name in list_folders()}
    return [to_variable(name, field.name) for name, kind in kinds.items() for field in fields(kind)]


def build_platforms(settings: "Settings", *, only_http: bool = False) -> "list[ChatPlatform]":
    """Return the configured platforms, each account as one; with `only_http`, those with routes on the web adapter."""
    return [
        platform
        for name, own in read_all_settings(settings).items()
        if own.missing is None and (own.serves_http or not only_http)
        for platform in _build(name, own)
    ]


def build_accounts(name: str, settings: "Settings") -> "list[ChatPlatform]":
    """Return the agent's accounts on a platform; raises `ConfigurationError` with what to set or to run instead."""
    folders = list_folders()
    if name in OTHERS:
        raise ConfigurationError(f"{name} is no chat platform; {OTHERS[name]}.")
    if name not in folders:
        names = sorted([*folders, *OTHERS, WEB])
        nearest = get_close_matches(name, names, n=1, cutoff=0.0)[0]
        raise ConfigurationError(
            f"This Parley has no adapter for {name}; there are: {', '.join(names)}. Did you mean {nearest}?"
        )
    own = settings.of_module(find_settings_class(name), name)
    if own.missing is not None:
        raise ConfigurationError(f"{name} is not configured; set {own.missing}.")
    return _build(name, own)


async def examine_platforms(settings: "Settings") -> "AsyncIterator[tuple[str, Finding]]":
    """Yield the findings of the configured platforms for `parley doctor`."""
    from adapters.base import Finding

    for name, own in read_all_settings(settings).items():
        if own.missing is not None:
            if any(getattr(own, field) is not None for field in own.needed_fields):
                yield name, Finding("warn", f"it is not used yet; set {own.missing}")
            continue
        try:
            platforms = _build(name, own)
        except ConfigurationError as error:
            yield name, Finding("fail", str(error))
            continue
        for platform in platforms:
            async for finding in examine(platform, settings):
                yield platform.adapter, finding


async def examine(platform: "ChatPlatform", settings: "Settings") -> "AsyncIterator[Finding]":
    """Yield the findings of one platform; an error that it raises is the last one."""
    from adapters.base import Finding

    try:
        async for finding in platform.examine(settings):
            yield finding
    except ParleyError as error:
        yield Finding("fail", str(error), is_outage=isinstance(error, Unavailable))
    finally:
        await platform.aclose()


def _build(name: str, own: "PlatformSettings") -> "list[ChatPlatform]":
    from adapters.base import ChatPlatform

    # mypy forbids abstract classes here; the class that is found is concrete.
    kind = find_class(f"adapters.{name}.platform", ChatPlatform)  # type: ignore[type-abstract]
    # Only a platform whose settings have several adapters has to be told which.
    return [kind(own) if adapter == name else kind(own, adapter) for adapter in own.adapters]
