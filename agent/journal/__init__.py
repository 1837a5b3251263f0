"""The steps of turns: values and log, recording, look-ups, the response of a finished turn. Makes no decisions."""
