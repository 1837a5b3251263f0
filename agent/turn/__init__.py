"""One turn from its message to its reply: opened, given its prompt, answered in a loop with its tools, closed."""
