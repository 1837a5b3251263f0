"""Builds the prompt of a turn, ordered so that providers' prompt caches hit.

System prompt and tools stay byte-identical between turns. The history is append-only and trimmed in blocks. Parts that
change with every turn (time, memories) come last, together with the new message.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any

from agent.context.history import PastStep, count_history, find_named
from agent.context.messages import (
    MEMORY_CHARS,
    ModelMessage,
    PromptImages,
    shows_recordings,
    to_context_block,
    to_past_turn,
    with_images,
    with_speaker,
    without_context_tags,
)
from agent.context.replied_to import RepliedTo
from agent.journal.steps import Step
from agent.llm.tokens import IMAGE_TOKENS, count_tokens
from agent.people.personas import ResolvedPersona
from agent.people.users import ResolvedConversation, ResolvedUser
from agent.prompts import prompts
from agent.tools.offer import Offer
from shared.clock import Clock
from shared.memory.memories import Memories, RecalledMemory
from shared.messages import PlatformContext


@dataclass(frozen=True, slots=True)
class PromptParts:
    """The inputs for the prompt of one message; `message` is the journal step of that message.

    `instructions` is the text that the offered modules add to the system prompt.
    """

    user: ResolvedUser
    persona: ResolvedPersona
    conversation: ResolvedConversation
    history: Sequence[PastStep]
    message: PastStep
    images: PromptImages = field(default_factory=PromptImages)
    instructions: str = ""
    platform_context: PlatformContext = field(default_factory=PlatformContext)
    replied_to: RepliedTo | None = None

    @property
    def is_shared(self) -> bool:
        """Return whether other users can read the conversation."""
        return not self.conversation.place.is_direct


@dataclass(frozen=True, slots=True)
class Context:
    """The prompt of a turn up to and including the new message; the turn's own steps are appended later.

    `images` are the images in its messages as `data:` URLs, by file id. `reasons` says what it was made of, for the
    operator: numbers and ids, no text. `shows_untrusted` is True when it holds images or messages of a channel, whose
    text others may have written; `shows_private` when it holds the user's memories or images from a direct
    message.
    """

    messages: tuple[ModelMessage, ...]
    images: Mapping[int, str] = field(default_factory=dict)
    shows_untrusted: bool = False
    shows_private: bool = False
    reasons: Mapping[str, Any] = field(default_factory=dict)


async def build_context(memory: Memories, clock: Clock, parts: PromptParts, *, recall_limit: int) -> Context:
    """Build the prompt for this message; do not call it inside a transaction, because it waits for memory recall."""
    return assemble(parts, await _recall(memory, parts, recall_limit), now=clock.now())


def assemble(parts: PromptParts, memories: Sequence[RecalledMemory], *, now: datetime) -> Context:
    """Build the prompt from its parts and these memories."""
    images, message = parts.images, parts.message
    content = without_context_tags(message.step.content) or prompts().turn.no_text
    if parts.is_shared:
        content = with_speaker(parts.user.name, content)
    block = to_context_block(parts.user, memories, parts.platform_context, now=now, replied_to=parts.replied_to)
    messages = [_system(parts)]
    for _, turn in groupby(parts.history, key=lambda each: each.turn_id):
        messages += to_past_turn(list(turn), images, is_shared=parts.is_shared)
    shown = with_images(f"{content}\n\n{block}", images.by_turn.get(message.turn_id, ()))
    messages.append({"role": "user", "content": shown})
    # Others may have written what was said in a channel.
    replied_to = parts.replied_to
    shows_untrusted = (
        bool(images.data)
        or shows_recordings(content)
        or any(each.scope == "conversation" or _shows_recordings(each) for each in memories)
        or (parts.is_shared and replied_to is not None and not replied_to.is_own)
    )
    # In a shared channel nothing is private: memories come from the same server, and everybody can see the images.
    shows_private = not parts.is_shared and bool(memories or images.data)
    return Context(
        tuple(messages),
        images.data,
        shows_untrusted=shows_untrusted,
        shows_private=shows_private,
        reasons=_describe(parts, memories),
    )


def _shows_recordings(memory: RecalledMemory) -> bool:
    return any(shows_recordings(each.content) for each in (memory, memory.before, memory.after) if each is not None)


def estimate(
    persona: ResolvedPersona,
    conversation: ResolvedConversation,
    *,
    history: Sequence[PastStep],
    steps: Sequence[Step],
    offer: Offer,
    memory_limit: int,
) -> int:
    """Return an upper estimate of one model call in tokens: the prompt plus the maximum output."""
    texts = sum(count_tokens(each) for each in (persona.system_prompt, conversation.summary or "", offer.instructions))
    past = count_history(history) + sum(each.token_count for each in steps)
    entries = 4 * (len(history) + len(steps) + 2)
    around = memory_limit * MEMORY_CHARS + 60
    # The turn of an image does not matter for counting tokens.
    images = IMAGE_TOKENS * len(find_named((0, each) for each in steps))
    return texts + past + entries + around + images + offer.tokens + persona.max_output_tokens


def _describe(parts: PromptParts, memories: Sequence[RecalledMemory]) -> dict[str, Any]:
    conversation, history = parts.conversation, parts.history
    return {
        "history": {
            "turns": len({each.turn_id for each in history}),
            "first_turn": history[0].turn_id if history else None,
            "tokens": count_history(history),
        },
        "summary": {
            "up_to_turn": conversation.summarized_turn_id if conversation.summary else None,
            "tokens": count_tokens(conversation.summary or ""),
        },
        "memories": [{"id": each.id, "score": round(each.score, 3), "scope": each.scope} for each in memories],
        "image_ids": sorted(parts.images.data),
        "replied_to_turn": parts.replied_to.turn_id if parts.replied_to else None,
        "earlier_messages": len(parts.platform_context.earlier),
    }


async def _recall(memory: Memories, parts: PromptParts, limit: int) -> list[RecalledMemory]:
    # A search is made for nothing where neither the person nor the place has any.
    if not (parts.user.has_memories or parts.conversation.has_memories):
        return []
    of_user = memory.of_user(parts.user.id, parts.conversation.place, parts.conversation.id)
    # Messages that the prompt shows need not be recalled.
    shown_from = (*parts.history, parts.message)[0].turn_id
    return await of_user.recall(parts.message.step.content, limit, shown_from=shown_from)


def _system(parts: PromptParts) -> ModelMessage:
    texts = [parts.persona.system_prompt]
    if parts.instructions:
        texts.append(parts.instructions)
    if parts.conversation.summary:
        texts.append(f"{prompts().turn.summary_heading}\n{parts.conversation.summary}")
    return {"role": "system", "content": "\n\n".join(texts)}
