"""What is remembered about people: stored, indexed, recalled; not the history of a conversation (`agent/context`)."""
