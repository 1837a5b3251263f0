"""The chat page and its endpoints; the API for programs is in `adapters/web/api`."""
