"""Schedules: when jobs are due, and each person's jobs; what a due job does is in `agent/commands/schedules`."""
