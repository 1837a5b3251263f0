"""Talking with the agent in the terminal: a conversation, or one question."""
