"""What a person has here and may take away: one list for every door that can show lists with buttons."""

from agent.panels.base import Entry, Panel, panel
from agent.panels.registry import find_panel, list_panels

__all__ = ["Entry", "Panel", "find_panel", "list_panels", "panel"]
