"""The chat page and what it asks for; programs use `adapters/web/api`."""
