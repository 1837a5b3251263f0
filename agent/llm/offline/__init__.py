"""The small model that needs no provider; optional."""
