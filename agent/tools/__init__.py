"""Offers tools to a turn: modules', MCP servers' and skills; checks arguments, converts results; no tool is here."""
