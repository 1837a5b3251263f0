"""The HTTP API for programs, with the OpenAI-compatible endpoints; the chat page is in `adapters/web/page`."""
