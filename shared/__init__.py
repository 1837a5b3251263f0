"""Code that both the agent and modules use; imports none of the other packages."""

__version__ = "0.1.0"
