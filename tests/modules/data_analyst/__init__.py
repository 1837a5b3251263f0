"""The module data_analyst, on real Postgres databases and real files."""
