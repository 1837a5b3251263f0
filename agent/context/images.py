"""The images of a conversation: which of them a prompt shows, and how a model that sees nothing is asked.

In a prompt stands where an image belongs, by its file's id; its bytes are put there when a route is asked. An image is
text that somebody else may have written, as a document is.
"""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import text

from agent.journal.steps import Step
from agent.llm.vision import SCHEME

if TYPE_CHECKING:
    from agent.app import App
    from agent.turn.open import RunningTurn

# The newest ones; what is older has been spoken of.
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
class Shown:
    """The images of a prompt: their files' ids by turn, and each as a `data:` address by its file's id."""

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


async def load_images(app: "App", turn: "RunningTurn") -> Shown:
    """Return the images that this turn's prompt shows: those of its message, and of the history."""
    said = [*((each.turn_id, each.step) for each in turn.history), (turn.key.id, turn.steps[0])]
    named = find_named(said)
    if not named:
        return Shown()
    given = {"ids": [file_id for _, file_id in named], "turn_ids": [turn_id for turn_id, _ in named]}
    async with app.database.statement() as session:
        rows = (await session.execute(FIND, given)).all()
    by_turn: dict[int, list[int]] = {}
    data: dict[int, str] = {}
    for row, shown in zip(rows, await asyncio.gather(*(app.images.show(row.minio_key) for row in rows)), strict=True):
        if shown is not None:
            data[row.id] = shown
            by_turn.setdefault(row.turn_id, []).append(row.id)
    return Shown(by_turn, data)


def with_images(said: str, file_ids: Sequence[int]) -> Any:
    """Return the content of a message with the places of its images."""
    if not file_ids:
        return said
    places = [{"type": "image_url", "image_url": {"url": f"{SCHEME}{file_id}"}} for file_id in file_ids]
    return [{"type": "text", "text": said}, *places]
