"""Facts that people stated, as a model read them from a conversation: checked, and stored with their source.

A fact that contradicts a known one supersedes it: the old one stays as history and is not recalled.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.memory.memories import Memories, StoredMemory
from shared.memory.storage import NewMemory, Origin
from shared.memory.tokenizer import split_words
from shared.memory.visibility import Visibility, act_in
from shared.messages import Author, Place

statements = load_statements(__file__)

MAX_FACTS = 20
MAX_FACT_CHARS = 300
# A model is shown so many known facts of each of so many persons, to find contradictions.
MAX_KNOWN, MAX_PERSONS = 30, 6
LEAST_CONFIDENCE = 0.5
# The share of a fact's words that its source message must have, that make it the person's own, and two facts the same.
LEAST_SHARED, OWN, SAME = 0.3, 0.8, 0.8


class Statement(Struct, frozen=True):
    """A message in which a person may have stated facts; `typed` is what they typed and spoke, without quotes."""

    user_id: int
    turn_id: int
    message_id: str | None
    speaker: str
    typed: str
    said_at: datetime


class Fact(Struct, frozen=True):
    """A fact that was stated in a message; `replaces` is the memory that it contradicts.

    Its author is the person when it has their words; the model may have taken others from what strangers wrote.
    """

    content: str
    confidence: float
    statement: Statement
    replaces: int | None = None
    author: Author = "person"

    @classmethod
    def read(cls, entry: Any, statement_by_number: Mapping[int, Statement]) -> "Fact | None":
        """Return the fact that a model listed with the number of its message; None when it is not usable."""
        if not isinstance(entry, dict):
            return None
        number, content, replaces = entry.get("message"), entry.get("fact"), entry.get("replaces")
        confidence = entry.get("confidence", 0.7)
        statement = statement_by_number.get(number) if isinstance(number, int) else None
        if statement is None or not isinstance(content, str) or not isinstance(confidence, int | float):
            return None
        content = " ".join(content.split())
        if not 0 < len(content) <= MAX_FACT_CHARS or not LEAST_CONFIDENCE <= confidence <= 1:
            return None
        words = set(split_words(content))
        beginnings = {split_word[:4] for split_word in split_words(f"{statement.speaker} {statement.typed}")}
        shared = sum(word[:4] in beginnings for word in words)
        if shared < LEAST_SHARED * len(words):
            return None
        return cls(
            content,
            float(confidence),
            statement,
            replaces=replaces if isinstance(replaces, int) else None,
            author="person" if shared >= OWN * len(words) else "stranger",
        )


KnownFacts = Mapping[int, Sequence[StoredMemory]]


async def list_known(memory: Memories, place: Place, sources: Sequence[Statement]) -> KnownFacts:
    """Return what is known about those who spoke and visible in this place, by user id."""
    user_ids = list(dict.fromkeys(statement.user_id for statement in sources))[:MAX_PERSONS]
    return {user_id_: await memory.of_user(user_id_, place, None).list_all(limit=MAX_KNOWN) for user_id_ in user_ids}


def read_facts(entries: Any, statement_by_number: Mapping[int, Statement], facts_by_user: KnownFacts) -> list[Fact]:
    """Return the usable ones of the facts that a model listed; `statement_by_number` are those in the prompt."""
    facts: list[Fact] = []
    for entry in entries if isinstance(entries, list) else ():
        fact = Fact.read(entry, statement_by_number)
        if fact is None or len(facts) == MAX_FACTS:
            continue
        about = facts_by_user.get(fact.statement.user_id, ())
        own = {old_fact.id for old_fact in about}
        contents = [fact.content for fact in facts] + [
            old_fact.content for old_fact in about if old_fact.id != fact.replaces
        ]
        words = set(split_words(fact.content))
        # Another number makes it another fact, however many words are the same.
        is_known = any(
            len(words & others) >= SAME * len(words | others) and not any(word.isdigit() for word in words ^ others)
            for others in (set(split_words(content)) for content in contents)
        )
        if not is_known:
            facts.append(replace(fact, replaces=fact.replaces if fact.replaces in own else None))
    return facts


async def store_facts(
    session: Session, memory: Memories, *, place: Place, conversation_id: int, facts: Sequence[Fact]
) -> None:
    """Store the facts, each with its source, and mark those that they replace."""
    rows = [
        NewMemory(
            fact.statement.user_id,
            Origin(place, conversation_id, turn_id=fact.statement.turn_id, message_id=fact.statement.message_id),
            fact.content,
            said_at=fact.statement.said_at,
            source="fact",
            speaker=fact.statement.speaker,
            confidence=fact.confidence,
            author=fact.author,
        )
        for fact in facts
    ]
    results = await memory.add(rows, session) if rows else []
    for fact, result in zip(facts, results, strict=True):
        if fact.replaces is not None and result is not None and result.memory_id is not None:
            await act_in(session, Visibility(fact.statement.user_id, place))
            await session.execute(statements.supersede_memory, {"old": fact.replaces, "new": result.memory_id})
