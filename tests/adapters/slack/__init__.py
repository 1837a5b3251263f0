"""Slack, by way of its stand-in."""
