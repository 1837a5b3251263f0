"""A person's own memories, messages of conversations included: searched, counted and forgotten by that person."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.memory.parameters import TYPES
from shared.memory.tokenizer import question_words
from shared.memory.vectors import to_halfvec
from shared.memory.visibility import Visibility, act_for, act_in

statements = load_statements(__file__, TYPES)


class OwnMemory(Struct, frozen=True):
    """A memory of a person, with where it may be seen (`scope`) and what it comes from (`source`)."""

    id: int
    content: str
    scope: str
    source: str
    said_at: datetime
    speaker: str | None
    is_from_bot: bool


async def list_own(
    session: Session,
    visibility: Visibility,
    words: str = "",
    *,
    limit: int,
    skip: int = 0,
    sources: Sequence[str] | None = None,
) -> list[OwnMemory]:
    """Return this person's memories that are visible in this place, newest first; with `words`, those with all of them.

    Without words, `sources` chooses what they come from.
    Words that stand in every text, such as "the", are left out; of other words alone nothing is found.
    """
    await act_in(session, visibility)
    parameters = {"user_id": visibility.user_id, "limit": limit, "skip": skip}
    if not words.strip():
        of_sources = parameters | {"sources": None if sources is None else list(sources)}
        return [OwnMemory(*row) for row in (await session.execute(statements.list_newest, of_sources)).all()]
    search_words = question_words(words)
    if not search_words:
        return []
    return [
        OwnMemory(*row)
        for row in (await session.execute(statements.list_with_words, parameters | {"words": search_words})).all()
    ]


async def list_similar(
    session: Session, visibility: Visibility, model: str, *, vector: Sequence[float], limit: int
) -> list[OwnMemory]:
    """Return this person's memories that are visible here and nearest to a vector of this model, nearest first."""
    await act_in(session, visibility)
    parameters = {
        "user_id": visibility.user_id,
        "model": model,
        "vector": to_halfvec(vector),
        "dimensions": len(vector),
        "limit": limit,
    }
    return [OwnMemory(*row) for row in (await session.execute(statements.list_similar, parameters)).all()]


async def get_own(session: Session, visibility: Visibility, ids: Sequence[int]) -> list[OwnMemory]:
    """Return those of these memories that are this person's and visible in this place, newest first."""
    await act_in(session, visibility)
    parameters = {"user_id": visibility.user_id, "ids": list(ids)}
    return [OwnMemory(*row) for row in (await session.execute(statements.list_own_by_ids, parameters)).all()]


async def count_own(session: Session, user_id: int) -> int:
    """Return how many memories this person has, in all places."""
    await act_for(session, user_id)
    return int((await session.execute(statements.count_own, {"user_id": user_id})).scalar_one())


async def forget_own(session: Session, user_id: int, ids: Sequence[int]) -> int:
    """Delete these memories of this person and what else was made of the turns they were said in; return how many."""
    await act_for(session, user_id)
    return await forget_visible(session, user_id, ids)


async def forget_visible(session: Session, user_id: int, ids: Sequence[int], *, asked_in: int | None = None) -> int:
    """Delete those of these memories of a person that the session may see, and forget the turns they were said in.

    The turn `asked_in` is forgotten with them. Returns how many memories there were; without any, nothing changes.
    """
    parameters = {"user_id": user_id, "ids": list(ids), "asked_in": asked_in}
    return int((await session.execute(statements.forget_memories, parameters)).scalar_one())


async def forget_all(session: Session, user_id: int) -> int:
    """Delete all memories of this person and what else was made of what they said; return how many there were."""
    return int((await session.execute(statements.forget_all, {"user_id": user_id})).scalar_one())
