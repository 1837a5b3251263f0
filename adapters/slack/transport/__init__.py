"""Connections to Slack: socket, signed requests, Web API; nothing here knows a turn."""
