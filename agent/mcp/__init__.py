"""Tools on MCP servers: connections, approval, calls; our own modules as a server are in `adapters/mcp`."""
