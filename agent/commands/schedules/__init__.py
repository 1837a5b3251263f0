"""Sends the scheduled jobs that are due, each as a message through the inbox; jobs are made in `shared/schedules`."""
