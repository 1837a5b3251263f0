"""What both the agent and a module need; imports nothing else of ours."""
