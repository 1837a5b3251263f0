"""Delegation of tasks to other agents: permissions, child turns, results; the A2A protocol is in `agent/agents/a2a`."""
