"""The page of replies: what waits, what failed."""
