"""Messages that wait and replies that wait: inbox, worker, outbox. What a turn does is in `agent/turn`."""
