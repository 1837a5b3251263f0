"""One model call: routes in order, attempts, prices. What is asked and what it means is decided in `agent/turn`."""
