"""Who takes part in a turn: users, roles, personas, conversations, and what they may spend; no turn runs here."""
