"""What the platform and the clock add to a message: where and when it was written, and what others wrote before."""

from collections.abc import Sequence
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from agent.context.quoting import quote, to_speaker, with_speaker
from agent.people.users import ResolvedUser
from agent.prompts import prompts
from shared.memory.memories import RecalledMemory
from shared.messages import PlatformContext, QuotedMessage
from shared.text import cut

MEMORY_CHARS = 300


def to_context_block(
    user: ResolvedUser, memories: Sequence[RecalledMemory], platform_context: PlatformContext, now: datetime
) -> str:
    """Return the block that follows the message: the time, the place and the memories of its author."""
    try:
        zone = ZoneInfo(user.time_zone)
    except (ZoneInfoNotFoundError, ValueError):
        zone = ZoneInfo("UTC")
    lines = [f"Now: {now.astimezone(zone):%A, %d %B %Y, %H:%M} ({zone.key})", *_to_lines(platform_context)]
    if memories:
        lines.append(prompts().turn.memories_heading.format(name=to_speaker(user.name)))
        lines += [f"- {quote(cut(each.content, MEMORY_CHARS))}" for each in memories]
    return "<context>\n" + "\n".join(lines) + "\n</context>"


def _to_lines(platform_context: PlatformContext) -> list[str]:
    # People choose the names of their channels and roles, so they are quoted like messages.
    facts = {
        "Server": platform_context.server_name,
        "Channel": platform_context.channel_name,
        "Channel topic": platform_context.topic,
        "Thread": platform_context.thread_title,
        "Roles of who writes": ", ".join(platform_context.roles),
    }
    return [f"{name}: {quote(fact)}" for name, fact in facts.items() if fact]


def with_earlier(text: str, earlier: Sequence[QuotedMessage]) -> str:
    """Return a message followed by what others wrote before it and the agent has not received."""
    heading = prompts().turn.earlier_heading
    # Only we may write the heading.
    text = text.replace(heading, f"({heading[1:-1]})")
    if not earlier:
        return text
    lines = [with_speaker(each.speaker, each.text.replace(heading, f"({heading[1:-1]})")) for each in earlier]
    return "\n".join([text, "", heading, *lines]).strip()
