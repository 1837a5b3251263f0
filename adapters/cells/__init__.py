"""Cells: several installations, each with its own Postgres and workers, behind one door."""
