"""Text protocols: write requests as text for models without tool calling; optional. `protocols` reads the answers."""
