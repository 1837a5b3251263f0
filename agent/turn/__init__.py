"""Runs one turn: opens it, loops between model and tools, closes it with a reply. `agent/turn/context` builds the prompt."""
