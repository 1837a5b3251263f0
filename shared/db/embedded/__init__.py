"""A Postgres server of our own, in a folder of the installation: its programs, the user that it runs as, its life."""
