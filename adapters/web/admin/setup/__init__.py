"""Which model answers, asked of the owner while none is set."""
