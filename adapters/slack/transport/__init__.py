"""Connections to Slack: socket, signed requests, Web API; no code for messages or turns."""
