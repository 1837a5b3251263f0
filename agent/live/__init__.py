"""Events of a running turn: publishing, listening, live display; `agent/journal` stores them."""
