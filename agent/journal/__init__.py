"""The journal of a turn: its begin, its steps and its end in the database, and the answer read back. No decisions."""
