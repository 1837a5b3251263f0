"""Agents of other installations, asked over A2A; the server for their questions is `adapters/a2a`."""
