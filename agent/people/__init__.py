"""The participants of a turn: users, roles, personas, conversations, listed agents; budgets are in `agent/people/billing`."""
