"""The platform Discord: one process holds the gateway connection, every worker sends by REST."""
