"""Who writes, who answers and where: users, roles, personas, conversations; their money is in `agent/billing`."""
