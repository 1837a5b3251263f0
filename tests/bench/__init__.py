"""The benchmark: the cost of a turn as a ratio to a minimal program, the floor. Run it with `python -m tests.bench`."""
