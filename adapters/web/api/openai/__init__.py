"""The agent as an OpenAI-compatible API, for existing clients."""
