"""The pages of servers and of their channels."""
