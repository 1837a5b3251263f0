"""Code that both the agent and modules use; imports none of the other packages."""
