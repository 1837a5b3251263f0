"""The application's collaborators, assembled once per process and passed as arguments; there are no globals."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Protocol, runtime_checkable

from msgspec import Struct, field

from agent.live.listener import Listener
from agent.queue.inbox import Inbox
from agent.queue.outbox import Outbox, ReplySender, Senders
from agent.tools.mcp.servers import RemoteTools
from agent.tools.modules import ModuleTools
from agent.tools.providers import ToolProvider
from agent.tools.toolbox import Toolbox
from agent.turn.services import Files, Models, TurnServices
from shared.clock import Clock
from shared.credentials.people import Credentials
from shared.db.database import Database
from shared.hooks import ModuleContext
from shared.memory.memories import Memories
from shared.settings import Secrets, Settings


@runtime_checkable
class NeedsApp(Protocol):
    """A sender that needs the app; `open` is called once the app is assembled."""

    async def open(self, app: "App") -> None:
        """Start the sender with the assembled app."""
        ...

    async def aclose(self) -> None:
        """Release the sender's resources."""
        ...


class ToolSources(Struct, frozen=True):
    """Where tools come from: modules, MCP servers, skills and other agents.

    `agents` builds its tool provider from a function that returns the collaborators of the agents' turns.
    """

    modules: ModuleTools
    mcp: RemoteTools
    skills: ToolProvider
    agents: Callable[[Callable[[], TurnServices]], ToolProvider]


class App(Struct, frozen=True, dict=True):
    """All collaborators of the application; the composition root builds one per process.

    To exchange a part use `msgspec.structs.replace`: `toolbox` and `turns` are then built again from the new parts.
    """

    settings: Settings
    secrets: Secrets
    clock: Clock
    database: Database
    files: Files
    memory: Memories
    models: Models
    tools: ToolSources
    events: Listener
    senders: Senders = field(default_factory=dict)

    @cached_property
    def inbox(self) -> Inbox:
        """Build the inbox, which stores this process's events."""
        return Inbox(self.database, self.events.notifier)

    @cached_property
    def outbox(self) -> Outbox:
        """Build the outbox, which delivers replies."""
        return Outbox(self.database, self.senders, self.settings.delivery_hours)

    @property
    def distinct_senders(self) -> Sequence[ReplySender]:
        """Return each sender once: one may have several adapters."""
        return list({id(sender): sender for sender in self.senders.values()}.values())

    @cached_property
    def credentials(self) -> Credentials:
        """Build the store of people's credentials, which encrypts them."""
        return Credentials(self.database, self.secrets.secret_keys)

    def context_of(self, module: str) -> ModuleContext:
        """Return what the routes and ticks of a module can use."""
        return ModuleContext(module, self.clock, self.files.http, database=self.database, app_settings=self.settings)

    @cached_property
    def toolbox(self) -> Toolbox:
        """Build the toolbox from all sources of tools."""
        providers = (self.tools.modules, self.tools.mcp, self.tools.skills, self.tools.agents(lambda: self.turns))
        return Toolbox(providers, self.settings.tool_result_max_chars, self.settings.tool_result_kept_chars)

    @cached_property
    def turns(self) -> TurnServices:
        """Build the collaborators of a turn."""
        return TurnServices(
            settings=self.settings,
            clock=self.clock,
            database=self.database,
            models=self.models,
            toolbox=self.toolbox,
            memory=self.memory,
            files=self.files,
            events=self.events,
            outbox=self.outbox,
            credentials=self.credentials,
        )
