"""Finds the images that messages name by the ids of their files."""

import re
from collections.abc import Iterable

from agent.journal.steps import Step

# Only the newest images are shown; older ones have usually been discussed already.
MOST_IMAGES = 8
# Matches the lines that `attachments.with_file_lines` writes. Users can type such lines too, so who loads an image
# checks that the file belongs to the turn.
NAMED = re.compile(r"\(file_id (\d{1,18}), (?:[^(),\n]{1,20}, )?image/(?:png|jpeg|webp|gif)\)")


def find_named(steps: Iterable[tuple[int, Step]]) -> list[tuple[int, int]]:
    """Return the last `MOST_IMAGES` images that user messages name, as pairs (turn id, file id), the newest last."""
    named = [
        (turn_id, int(file_id))
        for turn_id, step in steps
        if step.role == "user" and "(file_id " in step.content
        for file_id in NAMED.findall(step.content)
    ]
    return list(dict.fromkeys(named))[-MOST_IMAGES:]
