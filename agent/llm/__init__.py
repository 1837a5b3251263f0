"""Model calls: routes, attempts, fallback, prices; `agent/turn` builds the requests and uses the answers."""
