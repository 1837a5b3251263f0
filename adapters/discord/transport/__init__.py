"""Connections to Discord: REST, shards, limits; nothing here knows a turn."""
