"""Our own modules as an MCP server; other people's servers are in `agent/mcp`."""
