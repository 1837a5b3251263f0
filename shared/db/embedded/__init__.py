"""A Postgres server of our own, in a folder of the installation: its life, and the user that it runs as."""
