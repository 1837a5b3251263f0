"""The tables that queries name by class, by the topics of `migrations/schema`, which describes their columns."""

from shared.models.base import Base
from shared.models.files import FileRecord
from shared.models.queue import InboxMessage
from shared.models.tools import Agent, Skill
from shared.models.turns import Conversation, Turn, TurnEvent

__all__ = [
    "Agent",
    "Base",
    "Conversation",
    "FileRecord",
    "InboxMessage",
    "Skill",
    "Turn",
    "TurnEvent",
]
