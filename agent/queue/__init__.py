"""Inbox, worker and outbox, and the clearing up behind them; what a job does with its messages is in `agent/turn`."""
