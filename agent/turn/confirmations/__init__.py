"""Requests for the user's approval, and their answers; `agent/turn/policies` decides when approval is needed."""
