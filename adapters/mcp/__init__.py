"""Our modules as an MCP server."""
