"""The page of backups."""
