"""The words that the database knows: a persona with an unknown module or a misspelled platform is refused."""

from collections.abc import Collection, Mapping
from typing import Literal

from shared.db.database import Database
from shared.db.statements import load_statements

statements = load_statements(__file__)

# `open_threads`: the platforms on which all who read a channel read its threads.
Kind = Literal["module", "platform", "open_threads", "model", "provider"]
# Modules and platforms of another process stay known; the list of models is the same in all of them.
REPLACED: tuple[Kind, ...] = ("open_threads", "model", "provider")


async def note_words(database: Database, words: Mapping[Kind, Collection[str]]) -> None:
    """Store the words of each kind that is given; those of other kinds stay."""
    async with database.transaction() as session:
        for kind, vocabulary in words.items():
            parameters = {"kind": kind, "words": sorted(vocabulary)}
            if kind in REPLACED:
                await session.execute(statements.remove_words, parameters)
            await session.execute(statements.add_words, parameters)
