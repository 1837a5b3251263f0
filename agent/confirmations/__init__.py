"""Requests for the user's approval, and their answers; `agent/policies` decides when approval is needed."""
