"""Database access for turns: opening, recording steps, closing, and reading the response. Makes no decisions."""
