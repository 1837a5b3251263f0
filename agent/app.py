"""The assembled collaborators, passed in, never global."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from agent.delegation.peers import NoPeers, Peers
from shared.clock import Clock
from shared.db.database import Database
from shared.files.images import Images
from shared.files.storage import Storage
from shared.http.client import GuardedClient
from shared.memory.memories import Memories
from shared.settings import Secrets, Settings

if TYPE_CHECKING:
    from agent.delegation.agents import Delegate
    from agent.events.listener import Listener
    from agent.llm.router import Router
    from agent.mcp.servers import RemoteTools
    from agent.queue.outbox import Senders
    from agent.tools.toolbox import Toolbox


@runtime_checkable
class NeedsApp(Protocol):
    """A sender that uses the app: it gets it when all parts are assembled."""

    async def open(self, app: "App") -> None:
        """Open the sender with these collaborators."""
        ...

    async def aclose(self) -> None:
        """Close what is open."""
        ...


@dataclass(frozen=True)
class App:
    """Everything a turn needs. The composition root makes one per process."""

    settings: Settings
    secrets: Secrets
    clock: Clock
    database: Database
    http: GuardedClient
    storage: Storage
    images: Images
    memory: Memories
    router: "Router"
    toolbox: "Toolbox"
    mcp: "RemoteTools"
    events: "Listener"
    delegate: "Delegate"
    peers: Peers = field(default_factory=NoPeers)
    senders: "Senders" = field(default_factory=dict)
