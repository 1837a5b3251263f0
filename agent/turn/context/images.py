"""The images of a prompt.

A message refers to an image by the id of its file; the content is inserted when a route is called. Images count as
untrusted content, because they may contain text that somebody else has written.
"""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from agent.journal.steps import Step
from agent.llm.vision import SCHEME
from shared.db.database import Database
from shared.db.statements import load_statements
from shared.errors import FileDamaged, FileLost
from shared.files.images import Images
from shared.files.stored_file import StoredContent
from shared.log import get_logger

log = get_logger()

# Only the newest images are shown; older ones have usually been discussed already.
MOST_IMAGES = 8
# Matches the lines that `with_file_lines` writes. Users can type such lines too, so who loads an image
# checks that the file belongs to the turn.
NAMED = re.compile(r"\(file_id (\d{1,18}), (?:[^(),\n]{1,20}, )?image/(?:png|jpeg|webp|gif)\)")
statements = load_statements(__file__)


class PromptImages(Struct, frozen=True):
    """The images of a prompt: file ids by turn (`by_turn`), and `data:` URLs by file id (`data`).

    `unopened` are the file ids by turn of those that can't be shown.
    """

    by_turn: Mapping[int, Sequence[int]] = field(default_factory=dict)
    data: Mapping[int, str] = field(default_factory=dict)
    unopened: Mapping[int, Sequence[int]] = field(default_factory=dict)


async def load_images(database: Database, images: Images, steps: Iterable[tuple[int, Step]]) -> PromptImages:
    """Load the images that these steps name, each given with the id of its turn."""
    references = find_named(steps)
    if not references:
        return PromptImages()
    parameters = {"ids": [file_id for _, file_id in references], "turn_ids": [turn_id for turn_id, _ in references]}
    async with database.statement() as session:
        rows = (await session.execute(statements.list_images, parameters)).all()
    by_turn: dict[int, list[int]] = {}
    unopened: dict[int, list[int]] = {}
    data: dict[int, str] = {}
    for row, image in zip(rows, await asyncio.gather(*(_show(images, row) for row in rows)), strict=True):
        if image is None:
            unopened.setdefault(row.turn_id, []).append(row.id)
        else:
            data[row.id] = image
            by_turn.setdefault(row.turn_id, []).append(row.id)
    return PromptImages(by_turn, data, unopened)


async def _show(images: Images, row: Any) -> str | None:
    try:
        return await images.show(StoredContent(row.key, row.filename, row.sha256))
    except (FileLost, FileDamaged) as error:
        log.warning("image_not_shown", file=row.id, cause=error.code)
        return None


def with_images(content: str, file_ids: Sequence[int]) -> Any:
    """Return the content of a message with a placeholder for each of its images."""
    places = [{"type": "image_url", "image_url": {"url": f"{SCHEME}{file_id}"}} for file_id in file_ids]
    return [{"type": "text", "text": content}, *places]


def find_named(steps: Iterable[tuple[int, Step]]) -> list[tuple[int, int]]:
    """Return the last `MOST_IMAGES` images that user messages name, as pairs (turn id, file id), the newest last."""
    references = [
        (turn_id, int(file_id))
        for turn_id, step in steps
        if step.role == "user"
        for file_id in NAMED.findall(step.content)
    ]
    return list(dict.fromkeys(references))[-MOST_IMAGES:]
