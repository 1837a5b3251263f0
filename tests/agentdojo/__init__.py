"""AgentDojo, replayed: its tools as MCP servers, its reference calls as a model that obeys every injection."""
