"""Where pictures go, and what they may weigh."""

import os
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.async_api import Page

from tests.support.source_tree import ROOT

# `make screenshots` names docs/images.
FOLDER = ROOT / os.environ.get("PICTURES", "tests/artifacts")
LARGEST = 60_000
QUALITIES = (85, 75, 60, 45)
# The terminal's picture fetches no font: the reader's own has the same width.
SVG = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; \
font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


async def hide_scrollbars(page: Page) -> None:
    """Show none from the next address on."""
    session = await page.context.new_cdp_session(page)
    await session.send("Emulation.setScrollbarsHidden", {"hidden": True})


async def keep(page: Page, name: str) -> None:
    """Keep what the window shows, small enough for a page of the docs."""
    picture = Image.open(BytesIO(await page.screenshot(animations="disabled", caret="hide"))).convert("RGB")
    for quality in QUALITIES:
        content = BytesIO()
        picture.save(content, "WEBP", quality=quality, method=6)
        if content.tell() <= LARGEST:
            break
    write(f"{name}.webp", content.getvalue())


def write(name: str, content: bytes) -> Path:
    """Write a picture; one that is too large fails."""
    assert len(content) <= LARGEST, f"{name} has {len(content)} bytes"
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / name).write_bytes(content)
    return FOLDER / name
