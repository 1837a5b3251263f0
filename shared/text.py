"""Sanitises, measures and shortens text that enters or leaves the program; finds code blocks and credentials in it."""

import json
import re
import unicodedata
from difflib import SequenceMatcher
from math import isfinite
from string import ascii_lowercase
from typing import Any

# The largest id of a row (bigint); Postgres rejects a larger parameter.
MAX_ID = 2**63 - 1
MAX_DEPTH = 32
# Refuses NaN and infinity.
STRICT = json.JSONEncoder(allow_nan=False)
# About 4 bytes per token in English, 3 in most other scripts; the provider's count replaces the estimate afterwards.
BYTES_PER_TOKEN = 3
# What belongs to the character before it: the joiner, skin tones, and the letters of the flags of regions.
JOINER = "\N{ZERO WIDTH JOINER}"
JOINING = frozenset([JOINER, *map(chr, (*range(0x1F3FB, 0x1F400), *range(0xE0020, 0xE0080)))])
FLAG_LETTERS = "".join(map(chr, range(0x1F1E6, 0x1F200)))
MAX_JOINED = 40
# A line that opens or closes a code block.
FENCE = re.compile(r"^ {0,3}(?:(`{3,})([^`]*)|(~{3,})(.*))$")

# A whole string, or a bracket; a string that is not closed goes to the end.
BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|$)|[\[\]{}]', re.DOTALL)
# A name of so few words that it can hardly be read as anything else; letters of other scripts say more each.
MAX_NAME_WORDS, MAX_NAME_BYTES = 4, 40
NAME_WORD = re.compile(r"[^\W_]+")
# In a name: the beginning of an address, or a number to call or to pay to, which has more digits than a date.
TARGET = re.compile(r"\w[.:/\\@\u3002]+\w{2}|@\w|\d{5}|(?:\d\D*){9}")
# What spreadsheets begin a formula with, also in wide characters and behind blanks.
FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r]")
NUMBER = re.compile(r"[+-]?(?:\d{1,30}(?:[.,]\d{1,30}){0,10}|[.,]\d{1,30})(?:[eE][+-]?\d{1,3})?%?")

# A credential that somebody has typed into a message, also in marks, behind Matrix's sign or as `/credentials`; with or
# without the word `set`, which is easily forgotten; behind a blank, or as `NAME=`. Within a line, a blank behind the
# slash is that of a sentence, such as one about a password / credential of somebody. Without `set`, the slash behind a
# word is that of a path or address, also where a server's log says HTTP/1.1.
TYPED_CREDENTIAL = re.compile(
    r"(?:(?m:^)[^\S\n]*+[/!]\s*+|[/!])"
    r"(?:credentials?[*_~`:]*[\s_-]\s*+set\s+"
    r"|credential(?<![\w~\\-]/credential)[*_~`:]*\s+(?!(?:set|list|forget)(?:\s|\Z)|HTTP/\d))"
    r"(\S+?)(?:\s*+[=:]\s*+|\s++)"
    r"(?!\[removed\]\s*\Z)\S.*",
    re.IGNORECASE | re.DOTALL,
)
# What may be meant as that command: `\\credental`, `/creds` and, with digits and letters of other scripts, what looks
# like it. Behind a word the slash is that of a path. At the beginning it is a command for sure, and none of the others
# is as near; a backslash may begin a formula.
CREDENTIAL = "credential"
SIGNED_WORD = re.compile(r"((?m:^)[^\S\n]*+[/!\\]\s*+|(?<![\w.~:/\\-])[/!\\])([^\W_]{4,14})(?![^\W_])")
NEAR_COMMAND, NEAR_WORD = 0.6, 0.8
LEAST_PLAIN_LETTERS = 4
REMOVED = "[removed]"
# As other programs call that command: with `set` wherever it stands, and as a whole message with a value alone, which
# may be a key of many lines, or behind its name; in marks, too. Of more words, of a short one, or of letters that are
# written without blanks, it may be a sentence, such as one about the address /token.
OTHER_NAME = (
    r"[/!\\]\s*+[*_~`]*+((?:secret|password|passphrase|passwd|pass|pwd"
    r"|(?:(?:api|access|auth|secret|private)[_-]?)?(?:key|token))s?)[*_~`:]*+"
)
OTHER_CREDENTIAL = re.compile(
    rf"(?<![\w.~:/\\-]){OTHER_NAME}[\s_-]\s*+set\s++(?!(?:up|by|of|for|in|as|on|and|or)\s)"
    r"\S{1,64}?(?:\s*+[=:]\s*+|\s++)\S.*"
    rf"|\A(?!`[^`\s]+`)[\s*_~`|>\"]*+{OTHER_NAME}(?:\s*+=\s*+|\s++|(?<=:))(?:set\s++)?(?:\S{{1,64}}?(?:\s*+[=:]\s*+|\s++))?"
    r"(?:-----BEGIN\s.*|[^\s\u0e00-\u0fff\u3040-\u30ff\u3400-\u9fff]{6,}+[\s*_~`|\"]*+\Z)",
    re.IGNORECASE | re.DOTALL,
)
CREDENTIAL_MARK = re.compile(rf"/credential set \S+ {re.escape(REMOVED)}", re.IGNORECASE)
# Text of others must not control the terminal: no escape sequences, carriage returns or bidirectional overrides.
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def harmless(text: str) -> str:
    """Return the text without control characters."""
    return CONTROLS.sub("", text)


# Who looks does not see them, and a model reads them.
INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff\U000e0000-\U000e0fff]"
)


def escape_invisible(text: str) -> str:
    """Return the text with each invisible character as JSON writes it, such as a zero-width space."""
    return INVISIBLE.sub(lambda match: json.dumps(match[0])[1:-1], text)


def clean(text: str) -> str:
    """Return the text without NUL bytes (Postgres refuses them) and with lone surrogates replaced by U+FFFD."""
    if "\x00" in text:
        text = text.replace("\x00", "")
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


# What looks like a slash.
SLASHES = "\uff0f\u2044\u2215\u29f8"
# The first word of a text that begins with one, behind blanks and what nobody sees, which may separate the two as well.
UNSEEN = rf"(?:\s|{INVISIBLE.pattern})*"
SLASH_WORD = re.compile(rf"{UNSEEN}([/{SLASHES}](?:{UNSEEN}(?=[^\W\d_]))?\S*)")


def as_read(text: str) -> str:
    """Return the text as people read it: nothing invisible, wide letters as plain ones, and one kind of slash."""
    visible = INVISIBLE.sub(lambda match: " " if match[0].isspace() else "", text)
    if visible.isascii():
        return visible
    return unicodedata.normalize("NFKC", re.sub(f"[{SLASHES}]", "/", visible))


def to_command_line(text: str) -> str | None:
    """Return the text from its slash on if it may be a command, its first word as people read it.

    A slip of the thumb between slash and word makes it no text for a model, who may be told a credential by it.
    """
    word = SLASH_WORD.match(text)
    return None if word is None else clean(f"/{as_read(word[1])[1:].lstrip()}{text[word.end() :]}")


def clean_json(value: Any) -> Any:
    """Return a JSON value with all its strings cleaned; NaN and infinity, which JSON does not have, become strings."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {clean(str(key)): clean_json(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean_json(inner) for inner in value]
    return value


def write_json(value: Any) -> str:
    """Return a value as JSON text, cleaned as `clean_json` does; nearly always there is nothing to clean."""
    try:
        text = STRICT.encode(value)
    except ValueError:
        return json.dumps(clean_json(value))
    # Escaped, as everything beyond ASCII is. Half an emoji looks like a whole one.
    return json.dumps(clean_json(value)) if "\\u0000" in text or "\\ud" in text else text


def is_plain_name(name: str) -> bool:
    """Return whether what somebody has chosen as a name can be read as nothing more: few words, and no address."""
    # As it is read: wide letters are letters, and what is invisible separates nothing.
    visible = "".join(letter for letter in unicodedata.normalize("NFKC", name) if unicodedata.category(letter) != "Cf")
    is_short = len(name.encode()) <= MAX_NAME_BYTES and len(NAME_WORD.findall(visible)) <= MAX_NAME_WORDS
    return is_short and TARGET.search(visible) is None


def to_plain_name(name: str) -> str:
    """Return a name for a text that counts as another's words; one that is not plain is cut to its first words."""
    if is_plain_name(name):
        return name
    words = [word for word in NAME_WORD.findall(name) if not any(map(str.isdigit, word))][:MAX_NAME_WORDS]
    plain = " ".join(words).encode()[:MAX_NAME_BYTES].decode(errors="ignore").strip()
    return plain if plain and is_plain_name(plain) else "somebody"


def cut_nesting(text: str, levels: int) -> str:
    """Return a JSON text with null for each list and object that is nested deeper."""
    pieces, level, start = [], 0, 0
    for part in BRACKETS.finditer(text):
        if part[0] in ("[", "{"):
            level += 1
            if level == levels + 1:
                pieces += [text[start : part.start()], "null"]
        elif part[0] in ("]", "}"):
            if level == levels + 1:
                start = part.end()
            level -= 1
    return "".join([*pieces, text[start:] if level <= levels else ""])


def cut(text: str, limit: int) -> str:
    """Return the text, cut to at most `limit` characters including a note with the original length."""
    if len(text) <= limit:
        return text
    note = f"… [cut: {len(text):,} characters in all]"
    return text[: find_cut(text, max(0, limit - len(note)))] + note


def abbreviate(text: str, limit: int) -> str:
    """Return the text, cut to at most `limit` characters including an ellipsis."""
    return text if len(text) <= limit else text[: find_cut(text, limit - 1)].rstrip() + "…"


def find_cut(text: str, at: int) -> int:
    """Return the last place up to `at` where a text may be cut without tearing a joined character, as 👩‍🚀 or 🇫🇷 are.

    Longer ones than MAX_JOINED, which nobody types, are cut at `at`.
    """
    if at >= len(text) or text[max(0, at - 1) : at + 1].isascii():
        return at
    for place in range(at, max(0, at - MAX_JOINED), -1):
        before, after = text[place - 1], text[place]
        is_part = after in JOINING or unicodedata.category(after) in ("Mn", "Me", "Mc") or before == JOINER
        if not is_part and after in FLAG_LETTERS:
            # Flags are pairs of letters: an odd number before this one makes it the second of a pair.
            letters = text[:place]
            is_part = (len(letters) - len(letters.rstrip(FLAG_LETTERS))) % 2 == 1
        if not is_part:
            return place
    return at


def count_tokens(text: str) -> int:
    """Return an upper estimate of the tokens in the text."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def to_label(text: str) -> str:
    """Return a name as the label of a Markdown link: its brackets do not end the label."""
    return "".join(f"\\{char}" if char in "[]\\`" else char for char in text)


def fence_after(fence: str, line: str) -> str:
    """Return the line that opened the code block of the next line, "" outside of one."""
    match = FENCE.match(line)
    if match is None:
        return fence
    if not fence:
        return line.strip()
    mark = match[1] or match[3]
    is_closing = mark.startswith(fence_mark(fence)) and not (match[2] or match[4] or "").strip()
    return "" if is_closing else fence


def fence_mark(fence: str) -> str:
    """Return the backticks or tildes of a line that opens a code block."""
    match = FENCE.match(fence)
    return (match[1] or match[3]) if match else ""


def may_fence(text: str) -> bool:
    """Return whether a text may have a line that opens or closes a code block: a quick check."""
    return "```" in text or "~~~" in text


def is_one_message(text: str, limit: int) -> bool:
    """Return whether a text certainly is one message of at most `limit` UTF-16 units as it stands: a quick check."""
    # A character has at most two units; a code block may have to be closed.
    return 2 * len(text) <= limit and not may_fence(text)


def with_closed_fence(text: str) -> str:
    """Return the text with a line that closes the code block that it leaves open, if there is one."""
    if not may_fence(text):
        return text
    fence = ""
    for line in text.split("\n"):
        fence = fence_after(fence, line)
    return f"{text}\n{fence_mark(fence)}" if fence else text


def to_text_cell(cell: str) -> str:
    """Return a cell of a table so that no spreadsheet runs it as a formula: with `'` before what may be one.

    Numbers stay as they are, with a sign, too.
    """
    return f"'{cell}" if FORMULA.match(cell) and not NUMBER.fullmatch(cell) else cell


def without_credential(text: str) -> str:
    """Return a text without the credential in it: what follows `/credential set NAME`, however it was typed.

    A text with one becomes what people read in it.
    """
    visible = as_read(text)
    if not any(sign in visible for sign in "/!\\"):
        return text
    named = SIGNED_WORD.sub(_name_credential, visible)
    without, count = TYPED_CREDENTIAL.subn(rf"/{CREDENTIAL} set \1 {REMOVED}", named)
    if not count:
        # What is behind the other name may be a credential as a whole.
        without, count = OTHER_CREDENTIAL.subn(
            lambda match: f"/{CREDENTIAL} set {match[1] or match[2]} {REMOVED}", named
        )
    return without if count else text


def _name_credential(match: re.Match[str]) -> str:
    # The word as the command that it is near to.
    letters = unicodedata.normalize("NFKD", match[2].casefold())
    word = "".join(char for char in letters if not unicodedata.combining(char))
    if sum(char in ascii_lowercase for char in word) >= LEAST_PLAIN_LETTERS:
        # A digit or a letter of another script may look like any.
        word = "".join(char if char in ascii_lowercase else CREDENTIAL[i : i + 1] for i, char in enumerate(word))
    is_command = "/" in match[1] and not match.string[: match.start()].strip()
    is_near = SequenceMatcher(None, word, CREDENTIAL).ratio() >= (NEAR_COMMAND if is_command else NEAR_WORD)
    is_near = is_near or (is_command and CREDENTIAL.startswith(word.removesuffix("s")))
    return match[1].replace("\\", "/") + CREDENTIAL if is_near else match[0]


def had_credential(text: str) -> bool:
    """Return whether a credential was removed from this text."""
    return REMOVED in text and CREDENTIAL_MARK.search(text) is not None


def without_credentials_in(value: Any) -> Any:
    """Return a JSON value whose texts are as `without_credential` leaves them."""
    if isinstance(value, str):
        return without_credential(value)
    if isinstance(value, dict):
        return {name: without_credentials_in(part) for name, part in value.items()}
    return [without_credentials_in(part) for part in value] if isinstance(value, (list, tuple)) else value


def to_sentence(text: str) -> str:
    """Return what a function of the database says as a sentence."""
    end = "" if text.endswith((".", "!", "?")) else "."
    return f"{text[:1].upper()}{text[1:]}{end}"


def to_id(text: str) -> int | None:
    """Return the id that somebody typed; None for what can be no row's id, however long it is."""
    if not (text.isascii() and text.isdecimal()) or len(text.lstrip("0")) > len(str(MAX_ID)):
        return None
    number = int(text.lstrip("0") or "0")
    return number if number <= MAX_ID else None
