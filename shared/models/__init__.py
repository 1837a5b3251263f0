"""The tables, one file per noun; importing this package makes all of them known to `Base.metadata`."""

from shared.models.agent import Agent
from shared.models.base import Base
from shared.models.budget import BudgetReservation, TokenLog
from shared.models.conversation import Conversation
from shared.models.file import FileRecord
from shared.models.mail import InboxMessage, OutboxReply
from shared.models.mcp import McpServer, McpTool
from shared.models.memory import Memory, MemoryPosting, MemoryVector
from shared.models.persona import Persona
from shared.models.turn import Message, Turn, TurnEvent
from shared.models.user import User, UserPlatformLink

__all__ = [
    "Agent",
    "Base",
    "BudgetReservation",
    "Conversation",
    "FileRecord",
    "InboxMessage",
    "McpServer",
    "McpTool",
    "Memory",
    "MemoryPosting",
    "MemoryVector",
    "Message",
    "OutboxReply",
    "Persona",
    "TokenLog",
    "Turn",
    "TurnEvent",
    "User",
    "UserPlatformLink",
]
