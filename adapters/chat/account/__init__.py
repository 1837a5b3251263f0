"""An account as a member of places: one process listens to it, others invite it, and it has a profile in each place."""
