"""Planner mode, an optional mode of a turn: the model answers with plans of tool calls, which are executed here."""
