"""The inbox, the worker and the outbox: messages that wait for a turn, replies that wait for delivery; not the turn."""
