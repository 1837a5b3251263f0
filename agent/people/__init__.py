"""Who writes, who answers and where: users, roles, personas, conversations; budgets are in `agent/billing`."""
