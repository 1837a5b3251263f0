"""Sends replies to Slack; the content of a reply is decided elsewhere."""
