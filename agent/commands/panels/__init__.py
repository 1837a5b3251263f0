"""Panels: lists of a user's own things with a button to remove each, for all adapters that can show buttons."""

from agent.commands.panels.base import Entry, Panel, panel
from agent.commands.panels.registry import find_panel, list_panels

__all__ = ["Entry", "Panel", "find_panel", "list_panels", "panel"]
