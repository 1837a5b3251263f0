"""The words that the database's triggers know: a persona with an unknown module or a misspelled platform is refused."""

from collections.abc import Collection, Mapping
from typing import Literal

from sqlalchemy import text

from shared.db.database import Database

Kind = Literal["module", "platform", "model", "provider"]
# Modules and platforms of another process stay known; the list of models is the same in all of them.
REPLACED: tuple[Kind, ...] = ("model", "provider")

REMOVE = text("DELETE FROM known_words WHERE kind = :kind AND word <> ALL(CAST(:words AS text[]))")
ADD = text("""
INSERT INTO known_words (kind, word)
SELECT :kind, given.word FROM unnest(CAST(:words AS text[])) AS given(word)
WHERE NOT EXISTS (SELECT FROM known_words AS known WHERE known.kind = :kind AND known.word = given.word)
ON CONFLICT DO NOTHING
""")


async def note_words(database: Database, words: Mapping[Kind, Collection[str]]) -> None:
    """Store the words of each kind that is given; those of other kinds stay."""
    async with database.transaction() as session:
        for kind, vocabulary in words.items():
            parameters = {"kind": kind, "words": sorted(vocabulary)}
            if kind in REPLACED:
                await session.execute(REMOVE, parameters)
            await session.execute(ADD, parameters)
