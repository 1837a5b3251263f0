"""The one outward HTTP client with its egress guard; not the server, which is in `adapters/web`."""
