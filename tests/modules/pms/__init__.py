"""The module pms, on a real Postgres."""
