"""How late the platforms' stand-ins answer: `STANDIN_LATENCY_MS=300 pytest tests/adapters/slack` slows a whole run."""

import os


def latency() -> float:
    """Return the seconds by which a new stand-in delays each answer of its API."""
    return int(os.environ.get("STANDIN_LATENCY_MS", "0")) / 1000
