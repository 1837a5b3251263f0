"""The page of tools: modules, MCP servers and agents."""
