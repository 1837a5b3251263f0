"""The A2A client, which calls agents of other installations; the A2A server is in `adapters/a2a`."""
