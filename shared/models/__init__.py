"""The tables, one file per noun; importing this package adds all of them to `Base.metadata`."""

from shared.models.agent import Agent
from shared.models.audit import AuditEntry
from shared.models.base import Base
from shared.models.bot import Bot, DirectChannel, Shard
from shared.models.budget import Budget, BudgetGrant, BudgetNotice, BudgetReservation, TokenLog
from shared.models.channel import ChannelMode
from shared.models.command_confirmation import CommandConfirmation
from shared.models.compatibility import SchemaCompatibility
from shared.models.confirmation import Confirmation
from shared.models.conversation import Conversation, Summary
from shared.models.credential import Credential
from shared.models.erasure import Erasure
from shared.models.feedback import Feedback
from shared.models.file import FileRecord
from shared.models.known_word import KnownWord
from shared.models.mail import DeliveryOutage, InboxMessage, OutboxReply
from shared.models.mcp import McpServer, McpTool
from shared.models.memory import (
    EmbeddingModel,
    Memory,
    MemoryPosting,
    MemoryRetention,
    MemoryScope,
    MemoryVector,
    MemoryWord,
)
from shared.models.persona import Persona, PersonaVersion
from shared.models.price import ModelPrice
from shared.models.role import MemberRoles, RoleGrant
from shared.models.schedule import ScheduledJob
from shared.models.server import Server
from shared.models.skill import Skill
from shared.models.slack import SlackGroupList, SlackGroupMember, SlackInstallation, SlackOAuthState
from shared.models.totals import CallTotal, CountedRows, EventTotal, ToolTotal, TurnTotal
from shared.models.turn import ForgottenTurn, FullResult, Message, Turn, TurnContext, TurnEvent, UnrememberedTurn
from shared.models.user import User, UserPlatformLink

__all__ = [
    "Agent",
    "AuditEntry",
    "Base",
    "Bot",
    "Budget",
    "BudgetGrant",
    "BudgetNotice",
    "BudgetReservation",
    "CallTotal",
    "ChannelMode",
    "CommandConfirmation",
    "Confirmation",
    "Conversation",
    "CountedRows",
    "Credential",
    "DeliveryOutage",
    "DirectChannel",
    "EmbeddingModel",
    "Erasure",
    "EventTotal",
    "Feedback",
    "FileRecord",
    "ForgottenTurn",
    "FullResult",
    "InboxMessage",
    "KnownWord",
    "McpServer",
    "McpTool",
    "MemberRoles",
    "Memory",
    "MemoryPosting",
    "MemoryRetention",
    "MemoryScope",
    "MemoryVector",
    "MemoryWord",
    "Message",
    "ModelPrice",
    "OutboxReply",
    "Persona",
    "PersonaVersion",
    "RoleGrant",
    "ScheduledJob",
    "SchemaCompatibility",
    "Server",
    "Shard",
    "Skill",
    "SlackGroupList",
    "SlackGroupMember",
    "SlackInstallation",
    "SlackOAuthState",
    "Summary",
    "TokenLog",
    "ToolTotal",
    "Turn",
    "TurnContext",
    "TurnEvent",
    "TurnTotal",
    "UnrememberedTurn",
    "User",
    "UserPlatformLink",
]
