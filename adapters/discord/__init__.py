"""Discord: one gateway process listens, every worker sends by REST."""
