"""Access to Postgres: connections, transactions, retries and the embedded server; the tables are in `shared/models`."""
