"""Schedules: when jobs are due, and the jobs of each person; what a due job does stands in `agent/commands/schedules`."""
