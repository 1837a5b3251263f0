"""Questions that need a person's yes, and their answers; when one is needed is decided in `agent/policies`."""
