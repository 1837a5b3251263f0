"""One model call: routes in order, attempts, prices; requests are built and answers used in `agent/turn`."""
