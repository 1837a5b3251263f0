"""What others say that a server and a client have to do: the suites of MCP and A2A, and OpenAI's Node client."""
