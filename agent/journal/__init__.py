"""The journal of a turn: its steps, recorded once and fenced, and the answer read back from it; it decides nothing."""
