"""The page of what was spent."""
