"""Backups: the database, the files and the secrets of an installation in one archive."""
