"""Billing: budgets, reservations and the ledger of model calls; prices come from `agent/llm`."""
