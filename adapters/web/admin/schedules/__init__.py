"""The page of scheduled jobs."""
