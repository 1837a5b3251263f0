"""What the agent can do: one folder per module, found by walking."""
