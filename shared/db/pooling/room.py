"""How many connections a process opens, and whether a server takes those of all."""

from shared.db.connections import Server
from shared.db.embedded.server import CONNECTIONS
from shared.settings import Settings

# A statement takes a millisecond, and each connection has to plan all of them once.
POOL_SIZE = 4
# Those beside the pool: one listens, one is for long work.
SESSIONS = 2
# What a process that runs turns opens at most; what is left for all that is not a worker, such as commands, psql and
# other adapters; and what a server keeps for superusers.
WORKER_CONNECTIONS, OTHER_CONNECTIONS, RESERVED_CONNECTIONS = POOL_SIZE + SESSIONS, 13, 3


def count_connections(settings: Settings) -> int:
    """Return how many connections a server should take for `parley run` with these settings."""
    return max(CONNECTIONS, settings.count_workers() * WORKER_CONNECTIONS + OTHER_CONNECTIONS + RESERVED_CONNECTIONS)


def find_shortage(server: Server, workers: int) -> str | None:
    """Return the sentence for a server that takes fewer connections than this many workers may open, and the rest."""
    if not workers:
        return None
    count = workers * (SESSIONS if server.has_sessions_apart else WORKER_CONNECTIONS)
    needed = count + OTHER_CONNECTIONS
    if server.connections >= needed:
        return None
    who = "1 worker opens" if workers == 1 else f"{workers} workers open"
    # Of the pooler's own nothing can be seen from here.
    beside, pooled = (" beside the pooler's", " and the pooler's") if server.has_sessions_apart else ("", "")
    remedy = f"set max_connections to {needed + RESERVED_CONNECTIONS}{pooled} or more there, or WORKERS to fewer"
    return (
        f"{who} up to {count} connections{beside}, {OTHER_CONNECTIONS} are for all else, and the server takes "
        f"{server.connections}: {remedy}."
    )
