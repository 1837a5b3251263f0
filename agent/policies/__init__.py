"""What stands before a call: each policy says whether it may run. Running it is the business of `agent/turn`."""
