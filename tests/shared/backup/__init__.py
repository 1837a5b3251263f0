"""Backups: the archive, and the whole circle."""
