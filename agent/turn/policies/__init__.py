"""Policies that decide whether a tool call may run. `agent/turn` applies them and runs the calls."""
