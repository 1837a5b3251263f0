"""Skills in the Agent Skills format: read from a folder and a table, listed in the prompt, loaded by the model."""
