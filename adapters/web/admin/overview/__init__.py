"""The page that shows how everything is."""
