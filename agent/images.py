"""The images of a conversation: which of them a prompt shows, and how a model that sees nothing is asked.

In a prompt stands where an image belongs, by its file's id; its bytes are put there when a route is asked. An image is
text that somebody else may have written, as a document is.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import text

from agent.completions import ModelRequest
from agent.journal import Step
from agent.personas import prompts
from shared.clock import Clock

if TYPE_CHECKING:
    from agent.app import App
    from agent.opening import RunningTurn

# The newest ones; what is older has been spoken of.
MOST_IMAGES = 8
SCHEME = "parley-file:"
# As `attachments.with_file_lines` writes them. People can write such a line too: the database knows whose file it is.
NAMED = re.compile(r"\(file_id (\d{1,18}), (?:[^(),\n]{1,20}, )?image/(?:png|jpeg|webp|gif)\)")
# A model that has refused images may be another one by then.
BLIND_SECONDS = 600.0

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


def fill(request: ModelRequest) -> list[dict[str, Any]]:
    """Return the messages of a request with its images in their places."""
    return [{**each, "content": _filled(each["content"], request.images)} for each in request.messages]


def _filled(content: Any, images: Mapping[int, str]) -> Any:
    if not isinstance(content, list):
        return content
    return [
        {"type": "image_url", "image_url": {"url": images[_file_id(part)]}} if _is_image(part) else part
        for part in content
    ]


def without_images(request: ModelRequest) -> ModelRequest:
    """Return a request for a model that sees nothing: it is told so where an image would have been."""
    return replace(request, messages=tuple(map(_in_words, request.messages)), images={})


def _in_words(message: dict[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    said = [prompts()["turn.image_unseen"].format(file_id=_file_id(part)) for part in content if _is_image(part)]
    texts = [part["text"] for part in content if not _is_image(part)]
    return {**message, "content": "\n\n".join([*texts, *said])}


def _is_image(part: Mapping[str, Any]) -> bool:
    return bool(part["type"] == "image_url")


def _file_id(part: Mapping[str, Any]) -> int:
    return int(part["image_url"]["url"].removeprefix(SCHEME))


class Sight:
    """Which models see images: as far as that is known, and else until one has refused them."""

    def __init__(self, known: Callable[[str], bool | None], clock: Clock) -> None:
        self._known = known
        self._clock = clock
        self._blind: dict[str, float] = {}

    def fit(self, name: str, request: ModelRequest) -> ModelRequest:
        """Return the request as this route's model can take it in."""
        if not request.images:
            return request
        known = self._known(name)
        is_blind = self._blind.get(name, 0.0) > self._clock.monotonic() if known is None else not known
        return without_images(request) if is_blind else request

    def learn(self, name: str) -> None:
        """Remember that the model has refused images, and answered without them."""
        self._blind[name] = self._clock.monotonic() + BLIND_SECONDS
