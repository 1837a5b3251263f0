"""Inbox, worker and outbox: messages waiting for a turn, replies waiting for delivery; turns are in `agent/turn`."""
