"""The HTTP API for programs, with the OpenAI-compatible endpoints; the page for people is `adapters/web/page`."""
