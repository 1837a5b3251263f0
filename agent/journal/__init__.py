"""The steps of turns: their values and log, recording, look-ups, and the response of a finished turn. Makes no decisions."""
