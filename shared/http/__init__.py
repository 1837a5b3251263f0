"""The HTTP client for all outgoing requests, with its egress guard; the server is in `adapters/web`."""
