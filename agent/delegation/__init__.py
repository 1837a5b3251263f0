"""Tasks handed to other agents: who may be asked, the child turn, its result; the protocol is in `agent/a2a`."""
