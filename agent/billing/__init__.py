"""What may be spent and what was spent: budgets, reservations, the ledger; prices come from `agent/llm`."""
