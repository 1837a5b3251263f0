"""What the system gives a process, and when it ends it."""
