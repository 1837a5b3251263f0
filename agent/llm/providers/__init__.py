"""The models that litellm reaches: requests, streams and errors of providers. Retries and fallback are not here."""
