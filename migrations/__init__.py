"""The schema of the database, and how the tables of one release become those of the next."""
