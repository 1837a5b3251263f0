"""Other agents: tasks for personas of this installation and, over A2A, of others; one's own turn is in `agent/turn`."""
