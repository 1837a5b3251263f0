"""The way to Postgres: connections, transactions, retries, the embedded server; the tables are in `shared/models`."""
