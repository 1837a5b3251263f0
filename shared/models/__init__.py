"""The tables that queries name by class, by the topics of `migrations/schema`, which describes their columns."""

from shared.models.base import Base
from shared.models.files import FileRecord
from shared.models.people import User, UserPlatformLink
from shared.models.places import Persona, Server
from shared.models.queue import InboxMessage
from shared.models.tools import Agent, McpServer, McpTool, Skill
from shared.models.turns import Conversation, Turn, TurnEvent

__all__ = [
    "Agent",
    "Base",
    "Conversation",
    "FileRecord",
    "InboxMessage",
    "McpServer",
    "McpTool",
    "Persona",
    "Server",
    "Skill",
    "Turn",
    "TurnEvent",
    "User",
    "UserPlatformLink",
]
