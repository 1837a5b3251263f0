"""Connections to Slack: socket, signed requests, Web API; no code for messages or turns."""

# The paths of events, of clicks and of commands.
PATHS = ("/slack/events", "/slack/interactions", "/slack/commands")
