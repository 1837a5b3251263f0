"""All that the chat page says stands in one catalogue: nothing beside it, and nothing in it that nobody says."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from adapters.web.page.page import PLACEHOLDER, STATIC, TEXTS, render_texts

PAGES = [STATIC / name for name in ("index.html", "offline.html")]
# Those of the admin pages and of /me are not the chat page's.
OTHERS = {"admin.js", "plots.js"}
SCRIPTS = [path for path in sorted(STATIC.glob("*.js")) if path.name not in OTHERS]
NAME, WORDS = "Parley", re.compile(r"[A-Za-z]{2}")
SPOKEN_ATTRIBUTES = {"aria-label", "title", "placeholder", "alt"}
# In a script: what is put where people read it, and what looks like a sentence.
PUT = re.compile(
    r'(?:textContent|placeholder|title|alt) = "([^"]+)"|"aria-label", "([^"]+)"|faultLine\("([^"]+)"'
    r'|node\("[^"]*", "[^"]*", "([^"]+)"'
)
SENTENCE = re.compile(r'["`]([A-Z][a-z]+(?: [^"`]*)?|[a-z]+ [^"`]*[a-z][.?!…])["`]')
# Names of events, keys, headers and methods.
NO_TEXTS = {"Escape", "Enter", "Files", "Notification", "Content", "Parley"}


class Spoken(HTMLParser):
    """The texts and spoken attributes of a page, but for code."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the attributes that are read to people."""
        self.inside.append(tag)
        self.texts += [value or "" for name, value in attrs if name in SPOKEN_ATTRIBUTES]

    def handle_data(self, text: str) -> None:
        """Note a text, unless it is code or a command."""
        if "code" not in self.inside[-1:] and not text.startswith("/"):
            self.texts.append(text)


def list_used() -> set[str]:
    """Return the keys that pages and scripts name."""
    keys = {key for path in PAGES for key in PLACEHOLDER.findall(path.read_text("utf-8"))}
    for path in SCRIPTS:
        script = read_script(path)
        keys |= set(re.findall(r"\btexts\.(\w+)", script))
        # The state of a tool card is the end of its text's key.
        beginnings = tuple(re.findall(r"texts\[`(\w+)\$", script))
        keys |= {key for key in catalogue() if beginnings and key.startswith(beginnings)}
    return keys


def read_script(path: Path) -> str:
    """Return a script without comments and imports."""
    return re.sub(r"^\s*(//|import ).*$", "", path.read_text("utf-8"), flags=re.MULTILINE)


def catalogue() -> dict[str, str]:
    """Return the texts by their keys."""
    texts: dict[str, str] = json.loads(TEXTS.read_text("utf-8"))
    return texts


def test_the_page_uses_each_text_and_no_other() -> None:
    texts = catalogue()

    assert list_used() == set(texts)
    assert all(text.strip() for text in texts.values())
    assert list(texts) == sorted(texts)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_no_page_says_anything_beside_the_catalogue(path: Path) -> None:
    spoken = Spoken()
    spoken.feed(path.read_text("utf-8"))
    beside = [text.strip() for text in spoken.texts if WORDS.search(PLACEHOLDER.sub("", text).replace(NAME, ""))]

    assert beside == []
    assert "{{" not in render_texts(path)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_no_script_says_anything_beside_the_catalogue(path: Path) -> None:
    script = read_script(path)
    put = ["".join(groups) for groups in PUT.findall(script)]
    beside = [text for text in [*put, *SENTENCE.findall(script)] if re.split(r"\W", text)[0] not in NO_TEXTS]

    assert beside == []
