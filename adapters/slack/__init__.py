"""Slack: whoever listens holds a socket or takes signed requests, every worker sends by the Web API."""
