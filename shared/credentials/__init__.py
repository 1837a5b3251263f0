"""Credentials of people for other services: encrypted at rest, readable by tools alone."""
