"""The collaborators of a turn, built once by the composition root and passed as arguments."""

from collections.abc import Mapping

from msgspec import Struct, field

from agent.live.listener import Listener
from agent.llm.router import Router
from agent.people.participants import LoopMode
from agent.queue.outbox import Outbox
from agent.tools.toolbox import Toolbox
from agent.turn.modes import Mode
from shared.clock import Clock
from shared.credentials.people import Credentials
from shared.db.database import Database
from shared.files.images import Images
from shared.files.storage import Storage
from shared.http.client import GuardedClient
from shared.memory.memories import Memories
from shared.settings import Settings
from shared.tasks import FairPool

# Of the messages whose attachments are fetched at once.
MAX_DOWNLOADS, MAX_DOWNLOADS_OF_PERSON = 16, 2


class Files(Struct, frozen=True):
    """The collaborators that download, store and show files. `downloads` bounds the attachments fetched at once."""

    storage: Storage
    images: Images
    http: GuardedClient
    downloads: FairPool = field(default_factory=lambda: FairPool(MAX_DOWNLOADS, MAX_DOWNLOADS_OF_PERSON))


class Models(Struct, frozen=True):
    """The models, and the modes in which a turn asks them; "native" is always one of the modes."""

    router: Router
    modes: Mapping[LoopMode, Mode]


class TurnServices(Struct, frozen=True):
    """The collaborators of a turn."""

    settings: Settings
    clock: Clock
    database: Database
    models: Models
    toolbox: Toolbox
    memory: Memories
    files: Files
    events: Listener
    outbox: Outbox
    credentials: Credentials
