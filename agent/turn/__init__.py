"""Runs one turn: opens it, loops between model and tools, closes it with a reply. `agent/context` builds the prompt."""
