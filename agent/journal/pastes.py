"""The parts of a person's message that somebody else may have written: quotes, mails, pages, blocks and long pastes.

They are known by their marks alone. A short paste without any mark can't be told from what the person has typed.
"""

import re
from collections.abc import Iterator

# Nobody types so much into a chat as a rule, and where a person's own words end in it can't be told.
LONG_CHARS = 2000
QUOTES = re.compile(r"^ {0,3}>>> (?s:.*)\Z|^ {0,3}>.*$", re.MULTILINE)
# Chats show a block of code in the middle of a line, too.
FENCE = re.compile(r"`{3,}|^ {0,3}~{3,}", re.MULTILINE)
TAG = re.compile(
    r"</?(?:!doctype|html|head|body|div|p|br|span|table|t[dhr]|ul|ol|li|h[1-6]|a|b|i|img|font|style|script|meta)"
    r"(?=[\s/>])[^<>]{0,2000}>",
    re.IGNORECASE,
)
# What mail programs write above the mail that is answered or forwarded, in some languages.
ABOVE = re.compile(
    r"^[ \t>*]{0,8}(?:-{2,}[^\n-]{0,40}(?:message|mail|nachricht|mensaje|messaggio|mensagem)[^\n-]{0,20}-{2,}[ \t]*$"
    r"|(?:begin forwarded message|anfang der weitergeleiteten nachricht|début du message transféré)\b)",
    re.IGNORECASE | re.MULTILINE,
)
WROTE = re.compile(
    r"\b(?:wrote|schrieb|écrit|escribió|scritto|escreveu)\b[^\n:]{0,80}:[ \t]*$", re.IGNORECASE | re.MULTILINE
)
COLON_END = re.compile(r":[ \t]*$", re.MULTILINE)
KINDS = {
    "sender": ("from", "von", "de", "da", "reply-to"),
    "receiver": ("to", "cc", "an", "à", "para", "a"),
    "subject": ("subject", "betreff", "objet", "asunto", "oggetto", "assunto"),
    "moment": ("date", "sent", "datum", "gesendet", "envoyé", "fecha", "enviado", "data", "inviato"),
}
KIND_OF = {name: kind for kind, names in KINDS.items() for name in names}
HEADER = re.compile(rf"[ \t>*]{{0,8}}({'|'.join(KIND_OF)})[ \t*]{{0,4}}:[ \t*]*(.*)", re.IGNORECASE)
ADDRESS = re.compile(r"<[^<>\s]+@[^<>\s]+>")
# What Postgres finds in any message with such parts, and in some without.
MARKS = (
    r"(?in)^[ \t>*]{0,8}(>|~~~|--|begin forwarded|anfang der|début du"
    r"|(from|von|de|da|subject|betreff|objet|asunto|oggetto)[ *]*:)"
    r"|</[a-z]|```|(wrote|schrieb|écrit|escribió|scritto|escreveu)[^:]{0,80}:[ \t]*$"
)


def without_pastes(text: str) -> str:
    """Return what the person has typed of a message, as far as marks tell; a mail goes to the message's end."""
    if len(text) > LONG_CHARS:
        return ""
    if ":" in text or "--" in text:
        # Most messages have no line that ends with a colon, and then the longer pattern need not be tried.
        patterns = (ABOVE, WROTE) if COLON_END.search(text) else (ABOVE,)
        marks = [match.start() for pattern in patterns if (match := pattern.search(text)) is not None]
        ends = [text.rfind("\n", 0, mark) + 1 for mark in marks]
        text = text[: min([*ends, *_list_mails(text), len(text)])]
    if "<" in text:
        tags = list(TAG.finditer(text))
        text = text[: tags[0].start()] + text[tags[-1].end() :] if len(tags) > 1 else text
    if "```" in text or "~~~" in text:
        # To the last fence: what was pasted into a block may hold some.
        fences = list(FENCE.finditer(text))
        text = text[: fences[0].start()] + (text[fences[-1].end() :] if len(fences) > 1 else "") if fences else text
    return QUOTES.sub("", text) if ">" in text else text


def has_pastes(text: str) -> bool:
    """Return whether somebody else may have written a part of a message."""
    return without_pastes(text) != text


def _list_mails(text: str) -> Iterator[int]:
    """Yield where the header of a mail begins: of one that came, not of one that the person writes (to, subject)."""
    start, kinds, position = 0, set[str](), 0
    for line in text.splitlines(keepends=True):
        header = HEADER.match(line)
        if header is not None:
            start = start if kinds else position
            kinds.add(kind := KIND_OF[header[1].lower()])
            has_sender = kind == "sender" and ADDRESS.search(header[2]) is not None
            if has_sender or len(kinds & {"sender", "subject", "moment"}) > 1:
                yield start
        elif line.strip() and not line[0].isspace():
            kinds.clear()
        position += len(line)
