"""The images of a conversation: which of them a prompt shows.

A prompt holds only the place of an image, by the id of its file; the bytes are inserted when a route is asked. An image
may hold text that somebody else has written, as a document may.
"""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import text

from agent.context.history import PastStep
from agent.journal.steps import Step
from agent.llm.vision import SCHEME
from shared.db.database import Database
from shared.files.images import Images

# The newest ones; older ones have been discussed already.
MOST_IMAGES = 8
# As `attachments.with_file_lines` writes them. People can write such a line too: the database knows whose file it is.
NAMED = re.compile(r"\(file_id (\d{1,18}), (?:[^(),\n]{1,20}, )?image/(?:png|jpeg|webp|gif)\)")

FIND = text("""
SELECT file_records.id, file_records.turn_id, file_records.minio_key
FROM unnest(CAST(:ids AS bigint[]), CAST(:turn_ids AS bigint[])) AS named (id, turn_id)
JOIN file_records ON file_records.id = named.id AND file_records.turn_id = named.turn_id
WHERE file_records.status = 'stored'
  AND file_records.mime_type IN ('image/png', 'image/jpeg', 'image/webp', 'image/gif')
ORDER BY file_records.id
""")


@dataclass(frozen=True, slots=True)
class PromptImages:
    """The images of a prompt: the ids of their files by turn, and each as a `data:` address by the id of its file."""

    by_turn: Mapping[int, Sequence[int]] = field(default_factory=dict)
    data: Mapping[int, str] = field(default_factory=dict)


def find_named(steps: Iterable[tuple[int, Step]]) -> list[tuple[int, int]]:
    """Return the images that messages name, as pairs of turn and file, the newest last; no more than are shown."""
    named = [
        (turn_id, int(file_id))
        for turn_id, step in steps
        if step.role == "user" and "(file_id " in step.content
        for file_id in NAMED.findall(step.content)
    ]
    return list(dict.fromkeys(named))[-MOST_IMAGES:]


async def load_images(
    database: Database, images: Images, *, history: Sequence[PastStep], message: PastStep
) -> PromptImages:
    """Return the images that the prompt of a message shows: those of the history and its own."""
    named = find_named((each.turn_id, each.step) for each in (*history, message))
    if not named:
        return PromptImages()
    given = {"ids": [file_id for _, file_id in named], "turn_ids": [turn_id for turn_id, _ in named]}
    async with database.statement() as session:
        rows = (await session.execute(FIND, given)).all()
    by_turn: dict[int, list[int]] = {}
    data: dict[int, str] = {}
    for row, shown in zip(rows, await asyncio.gather(*(images.show(row.minio_key) for row in rows)), strict=True):
        if shown is not None:
            data[row.id] = shown
            by_turn.setdefault(row.turn_id, []).append(row.id)
    return PromptImages(by_turn, data)


def with_images(content: str, file_ids: Sequence[int]) -> Any:
    """Return the content of a message with a place for each of its images."""
    if not file_ids:
        return content
    places = [{"type": "image_url", "image_url": {"url": f"{SCHEME}{file_id}"}} for file_id in file_ids]
    return [{"type": "text", "text": content}, *places]
