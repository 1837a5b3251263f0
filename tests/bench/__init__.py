"""The bench: what a turn costs, in ratios to a floor program that runs beside it. `python -m tests.bench` starts it."""
