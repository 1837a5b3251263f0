"""Tells who is concerned how full limits are, and decides on requests for more; the limits are in `agent/people`."""
