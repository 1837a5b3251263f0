"""Events of a running turn: announced, listened to, shown live; they are stored by `agent/journal`."""
