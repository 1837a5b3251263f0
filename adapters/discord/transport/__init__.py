"""Connections to Discord: REST, library, rate limits; no code for messages or turns."""
