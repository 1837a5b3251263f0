"""Agents, personas, MCP servers and budgets as resources, which `parley apply` and the operator make rows."""
