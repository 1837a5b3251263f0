"""Memories about users: storage, index and recall; the history of a conversation is in `agent/turn/context`."""
