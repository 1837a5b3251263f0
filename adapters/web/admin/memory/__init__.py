"""The page of what is remembered."""
