"""What a turn tells while it runs, and who listens; the stored part is written by `agent/journal`."""
