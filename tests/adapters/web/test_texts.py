"""All that the pages say stands in one catalogue: nothing beside it, and nothing in it that nobody says."""

import ast
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markupsafe import Markup

from adapters.web.page.page import PLACEHOLDER, STATIC, TEXTS_MODULE, render_texts
from adapters.web.texts import PLACE, read_texts, say, say_in_html

PAGES = [STATIC / name for name in ("index.html", "offline.html")]
MANIFEST = STATIC / "parley.webmanifest"
SCRIPTS = sorted(STATIC.glob("*.js"))
NAME, WORDS = "Parley", re.compile(r"[A-Za-z]{2}")
SPOKEN_ATTRIBUTES = {"aria-label", "title", "placeholder", "alt"}
WEB = STATIC.parent
# What people meet; programs and operators are answered in English.
HANDLERS = [
    *(WEB / f"{name}.py" for name in ("faults", "files", "notes", "portraits")),
    *(path for name in ("branches", "login", "me", "page", "shares") for path in sorted((WEB / name).glob("*.py"))),
    *sorted((WEB / "admin").rglob("*.py")),
]
HANDLERS.remove(WEB / "page" / "reference.py")
TEMPLATES = [path for name in ("admin", "me") for path in sorted((WEB / name).rglob("*.html"))]
EXPRESSION = re.compile(r"{[{%#].*?[#%}]}", re.DOTALL)
SAID = re.compile(r'\bsay\(\s*["\']([\w.]+)["\']')
# A column, and what the macros of the admin pages show as it is.
TITLE, LABEL = re.compile(r"[A-Z][a-z]"), re.compile(r'(?:badge|empty|filters|table)\("|(?:hint|label)="')
# What is shown where a value is missing.
DEFAULT = re.compile(r'\bor "([^"]*[A-Za-z][^"]*)"')
SPOKEN = re.compile(r"[A-Za-z']{2,},? [a-z']{2,}|^[A-Z][a-z]+ [A-Za-z]|[a-z]{2}[.?!]$")
# Headers, half a tag, classes, prefixes of fields, names of browsers and systems, and what is typed or compared.
NO_SENTENCE = re.compile(
    r"'(?:none|self)'|no-store|noindex|no-cache|<|^/|an i(?:Phone|Pad)|Mac OS|Samsung|erase me|openid|Value error"
    r"|Invalid JSON|text source|trusted-types|(?:module|skill)\.$|form (?:set-up|switch)|by search"
)
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
    keys = {key for path in (*PAGES, MANIFEST) for key in PLACEHOLDER.findall(path.read_text("utf-8"))}
    for path in SCRIPTS:
        script = read_script(path)
        keys |= set(re.findall(r"\btexts\.(\w+)", script))
        # The state of a tool card is the end of its text's key.
        beginnings = tuple(re.findall(r"texts\[`(\w+)\$", script))
        keys |= {key for key in read_texts() if beginnings and key.startswith(beginnings)}
    return keys


def read_script(path: Path) -> str:
    """Return a script without comments and imports."""
    return re.sub(r"^\s*(//|import ).*$", "", path.read_text("utf-8"), flags=re.MULTILINE)


def test_the_pages_use_each_text_and_no_other() -> None:
    texts = read_texts()

    assert list_used() == {key for key in texts if "." not in key}
    files = {*HANDLERS, *TEMPLATES, WEB / "texts.py", *WEB.glob("*/*.py")}
    said = {key for path in files for key in SAID.findall(path.read_text("utf-8"))}
    # What language the pages are in.
    assert all('lang="en' not in path.read_text("utf-8") for path in (*HANDLERS, *TEMPLATES, *PAGES))
    assert {key for key in said if "." in key} == {key for key in texts if "." in key}
    assert said <= set(texts)
    assert all(text.strip() for text in texts.values())
    assert list(texts) == sorted(texts)
    # A sentence is one text, whose words another language may put in another order.
    assert [text for text in texts.values() if text[0] in ",.;:" or text[-1] in ",;"] == []
    # What the server says is not sent along with the page.
    assert "login.welcome" not in render_texts(TEXTS_MODULE)


def test_values_of_a_text_are_no_html_unless_they_are_ours() -> None:
    assert say("login.stay", name="<b>{name}") == "Stay <b>{name}"
    assert say_in_html("login.stay", name="<b>{name}") == "Stay &lt;b&gt;{name}"
    assert say_in_html("me.since", at=Markup("<time>1</time>")) == "since <time>1</time>"


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_no_template_says_anything_beside_the_catalogue(path: Path) -> None:
    template, spoken = path.read_text("utf-8"), Spoken()
    spoken.feed(EXPRESSION.sub("", template))
    beside = [text.strip() for text in spoken.texts if WORDS.search(text.replace(NAME, ""))]
    code = [part for part in EXPRESSION.findall(template) if not part.startswith("{#")]
    literals = [text for part in code for text in re.findall(r'"([^"]*)"', part)]

    assert beside == []
    assert [text for text in literals if is_sentence(text) or TITLE.match(text)] == []
    assert [text for part in code for text in LABEL.findall(part)] == []
    assert [text for part in code for text in DEFAULT.findall(part)] == []


@pytest.mark.parametrize("path", HANDLERS, ids=lambda path: path.relative_to(WEB).as_posix())
def test_no_handler_says_anything_beside_the_catalogue(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and isinstance(node.body[0], ast.Expr)
    }
    constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docstrings]

    assert [node.value for node in constants if isinstance(node.value, str) and is_sentence(node.value)] == []


def is_sentence(text: str) -> bool:
    """Return whether a person could read this text; commands, policies and names of browsers are none."""
    plain = PLACE.sub("", re.sub(r"<[^>]*>", "", text, flags=re.DOTALL)).strip()
    return bool(SPOKEN.search(plain)) and not NO_SENTENCE.search(plain)


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
