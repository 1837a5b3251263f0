"""The simple requests that the offline model understands, in English and partly in German.

Tools are identified only by their function name; they may be in any module.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

Found = Mapping[str, str | None]
FORMATS = ("txt", "md", "html", "csv", "json")
FORMAT_WORDS = {"text": "txt", "markdown": "md"} | {extension: extension for extension in FORMATS}

POLITE = re.compile(r"^(?:(?:please|hey|hi|hello|parley|can you|could you|bitte|kannst du)\b[,!]?\s+)+", re.IGNORECASE)
SPEAKER = re.compile(r"^[^:\n]{1,64}: ")
TODAY = re.compile(
    r"^(?:what(?:'s| is) (?:the )?(?:time|date|day)|what (?:day|date|time) is (?:it|today)|what is today(?:'s date)?|"
    r"wie spät ist es|welche[rs] (?:tag|datum) ist heute)(?: today| now)?\W*$",
    re.IGNORECASE,
)
FILE = r"(?:the |die |das )?(?:file|document|datei|dokument) (?:number |nr\.? )?#?(?P<id>\d{1,18})"


class Intent(Struct, frozen=True):
    """A recognised request: a tool's function name and its arguments."""

    function: str
    arguments: dict[str, Any]
    # The call is a recall whose result should be deleted afterwards.
    is_to_forget: bool = False


def understand(message: str) -> Intent | None:
    """Return the intent of a message; None if it is not one of the simple requests."""
    for text in (message, SPEAKER.sub("", message)):
        plain = POLITE.sub("", text.strip())
        if document := DOCUMENT.match(plain):
            groups = document.groupdict()
            title = _text(groups, "title").strip("\"'")
            stem, _, extension = title.rpartition(".")
            form = FORMAT_WORDS.get(_text(groups, "kind").lower(), "md")
            if stem and extension.lower() in FORMATS:
                title, form = stem, extension.lower()
            return Intent("create_document", {"title": title, "content": _text(groups, "content"), "format": form})
        phrase = plain.rstrip(".!? \n")
        for pattern, to_intent in PHRASES:
            if match := pattern.match(phrase):
                return to_intent(match.groupdict() | {"said": phrase})
    return None


def without_speaker(message: str) -> str:
    """Return the text without polite phrases and without the speaker's name, which precedes it in shared channels."""
    return POLITE.sub("", SPEAKER.sub("", message.strip()).strip())


def _phrase(pattern: str, to_intent: Callable[[Found], Intent]) -> tuple[re.Pattern[str], Callable[[Found], Intent]]:
    return re.compile(rf"^(?:{pattern})$", re.IGNORECASE | re.DOTALL), to_intent


def _text(groups: Found, *names: str) -> str:
    return next((text.strip() for name in names if (text := groups.get(name))), "")


def _of_file(function: str) -> Callable[[Found], Intent]:
    return lambda groups: Intent(function, {"file_id": int(_text(groups, "id"))})


# All repetitions except the last one are bounded, so that a long untrusted text can't cause slow matching.
DOCUMENT = re.compile(
    r"^(?:write|create|make|erstelle?|schreibe?)(?: me| mir)? (?:an? |eine? |the )?(?P<kind>\w{1,20} )?"
    r"(?:document|file|dokument|datei) (?:called|named|namens) (?P<title>.{1,150}?) (?:with|containing|saying|mit)"
    r"(?: the (?:text|content)| dem (?:text|inhalt))?:? (?P<content>.+)$",
    re.IGNORECASE | re.DOTALL,
)
# Tried in this order; more specific patterns come first.
PHRASES = (
    _phrase(
        r"(?:remember|note|merke? dir)(?: that| this|,? dass)?[:,]? (?P<content>.+)",
        lambda groups: Intent("remember", {"content": _text(groups, "content")}),
    ),
    _phrase(
        r"(?:what|was) (?:do|can|wei(?:ß|ss)t) (?:you|du)(?: remember| know)?(?: about me| über mich)?|"
        r"(?:list|show)(?: me)? (?:my|your|all) memories",
        lambda _groups: Intent("list_memories", {}),
    ),
    _phrase(
        r"(?:forget|vergiss) (?:memory |number )*#?(?P<id>\d{1,18})",
        lambda groups: Intent("forget", {"memory_id": int(_text(groups, "id"))}),
    ),
    _phrase(
        r"(?:forget|vergiss)(?: that| about|,? dass)?[:,]? (?P<query>.+)",
        lambda groups: Intent("recall", {"query": _text(groups, "query")}, is_to_forget=True),
    ),
    _phrase(
        r"(?:what|was) .{0,40}?(?:know|remember|wei(?:ß|ss)t) .{0,40}?(?:about|of|regarding|über|von) (?P<query>.+)",
        lambda groups: Intent("recall", {"query": _text(groups, "query")}),
    ),
    _phrase(
        r"(?:list|show)(?: me)?(?: all)? (?:my|the) files|(?:what|which) files\b.*|welche dateien\b.*|"
        r"(?:zeige?|liste)(?: mir)? (?:meine|die) dateien.*",
        lambda _groups: Intent("list_files", {}),
    ),
    _phrase(rf"(?:read|open|show|lies|zeige?)(?: me| mir)? {FILE}(?: vor)?", _of_file("read_document")),
    _phrase(rf"(?:give me |get )?(?:a |the )?link (?:to|of|for|zu) {FILE}", _of_file("get_file_link")),
    _phrase(rf"(?:delete|remove|lösche) {FILE}", _of_file("delete_file")),
    _phrase(
        r"(?:what|which) (?:day|date)(?: of the week)? (?:is|was) (?P<hint>.+)|when (?:is|was) (?P<when>.+)|"
        r"welche[rs] (?:tag|wochentag|datum) ist (?P<tag>.+)|wann ist (?P<wann>.+)",
        lambda groups: Intent("resolve_date_hint", {"hint": _text(groups, "hint", "when", "tag", "wann")}),
    ),
    _phrase(
        r"(?:what|which|who|where|when|how|was|wie|wer|wo|wann)\b.{0,200}\b(?:my|mein\w*)\b.*|who am i|wer bin ich|"
        r"(?:where|what|when|wo|was|wann) (?:do|did|am|was|have|bin|habe) (?:i|ich)\b.*",
        lambda groups: Intent("recall", {"query": _text(groups, "said")}),
    ),
)
