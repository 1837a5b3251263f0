"""The MCP client: connections to servers, approval of their tools, calls; our own MCP server is in `adapters/mcp`."""
