"""Models behind litellm: requests, streams and errors of providers; retries and fallback are in `agent/llm`."""
