"""Takes images and links out of Markdown that a model wrote, line by line, so that a stream is checked as it comes.

Programs read Markdown differently, so this is not a parser for one of them: it looks for everything that one of them
may turn into an image, HTML or a link, and breaks it where it stands. The rest of the text stays as it is.

- Images by URL: only from the installation's own files; others become links.
- HTML that can load or link something: text, by a backslash before it; links with schemes such as `javascript:`: text.
- Links to hosts that are not allowed, where only some are: text without scheme, `example[.]org/page`.
"""

import re
from dataclasses import dataclass

from agent.outflow.hosts import LINK_SCHEMES, Hosts, scheme_of
from shared.text import fence_after, fence_mark

# Between the characters of a mark it is no mark any more, and cannot be seen.
BREAK = "\N{ZERO WIDTH SPACE}"
# The longest construct that is read as one. In a stream, the text behind an open one is held back up to this length.
MAX_SPAN = 600
# How often a place to cut a stream is looked for before a construct that is still open.
MAX_LOOKS = 4
# By which share of its length a text has to grow before the next look.
LOOK_SHARE = 4

# All marks at which something is decided.
ADDRESS_MARK = r"(?:\\?:|&(?:#0*58|#[xX]0*3[aA]|colon);)(?:\\?/|&(?:#0*47|#[xX]0*2[fF]|sol);){2}"
MARK = re.compile(rf"(?<!!)!+\[|\](?:\(|:)\s*|<(?=[A-Za-z/!?])|{ADDRESS_MARK}")
# Hosts without a scheme that some programs make links: with `www.`, with a path, or with a part for words of the turn.
TOP_DOMAIN = r"(?:[a-z]{2}|com|net|org|info|biz|dev|app|xyz|site|online|top|shop|link|click|cloud)(?![\w-]|\.\w)"
WWW = re.compile(
    # Of any length from the beginning of a word: a platform's limit may cut a long one down to a host.
    r"(?:(?<![\w./-])(?:[\w-]{64,}+\.[\w.-]*+|(?:[\w-]++\.)+[A-Za-z][\w-]++\.?(?=[/?#]|:\d)|(?:[\w-]++\.){2,}"
    rf"{TOP_DOMAIN})"
    # Within a word, of the length that a host may have, because every character of a word is such a place.
    r"|(?<![A-Za-z0-9./-])(?:www\.|(?:[\w-]{1,63}\.){1,8}[A-Za-z][\w-]{1,62}\.?(?=[/?#]|:\d)|(?:[\w-]{1,63}\.){2,8}"
    rf"{TOP_DOMAIN})"
    r"|(?<!:)//(?=[\w-]{1,63}\.))[^\s/?#\\<>]*",
    re.IGNORECASE,
)
SUSPICIOUS = re.compile(r"[<`\[\]]|[:;][\\/&]")
BARE = re.compile(r"\.(?:[\w-]+(?:[/?#:]|\.[/?#:A-Za-z])|(?<=[wW]{3}\.))|//")
# What a text has if the filter may change it: one without a match stays as it is, and nothing in it can become a link.
MARKED = re.compile(rf"{SUSPICIOUS.pattern}|{BARE.pattern}|~")
TICKS = re.compile(r"`+")
AUTHORITY = re.compile(r"[^\s/?#\\<>]*")
HOST = re.compile(r"[^\s/?#\\<>:&!()\[\]`\"'|]*")
# The beginning of a destination, which says where it leads.
MAX_BEGINNING = 150
DESTINATION = re.compile(rf"<[^<>\n]{{0,{MAX_BEGINNING}}}>|\S{{0,{MAX_BEGINNING}}}")
SCHEME_BEFORE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}$")
DOT = re.compile(r"\.(?=\w)")
IMAGE = re.compile(r"!+(?=\[[^\[\]\n]{0,200}\][(\[])")
ADDRESS = re.compile(r"<([A-Za-z][A-Za-z0-9+.-]{1,30}:[^\s<>]{0,400})>|<[\w.+-]{1,64}@[\w.-]{1,200}>")
# Markup of chat platforms, and marks of letters; a tag with attributes can do anything.
HARMLESS = re.compile(
    r"<(?:a:\w{1,32}:\d{1,20}|t:-?\d{1,15}(?::[A-Za-z])?|id:\w{1,32}|![A-Za-z][^<>\n]{0,100})>"
    r"|<https?://[^\s<>|]{1,300}\|[^<>\n=\"']{0,200}>"
)
LETTERING = re.compile(r"</?(?:b|i|u|s|em|strong|del|ins|mark|sub|sup|kbd|small|br)\s{0,3}/?>", re.IGNORECASE)
# What may stand before the first word of a line: indentation, and the marks of quotes and lists. No more of it is read,
# because it is read again for each mark in the line.
MAX_HEAD = 1000
HEAD = rf"[\s>*+\-\d.)]{{0,{MAX_HEAD - 1}}}+"
LINE_HEAD = re.compile(rf"{HEAD}(?:[\s>*+\-\d.)]|$)")
# What may stand before the first word of a definition of a link.
DEFINITION = re.compile(rf"{HEAD}[\s>*+\-\d.)\[]")
# Where a stream may be cut: no host or address goes on behind these.
BOUNDARY = "\\s\u3001\u3002\uff01\uff0c\uff1a\uff1b\uff1f"
CUTS = re.compile(f"[{BOUNDARY}](?=[^{BOUNDARY}]*$)")
FENCE_BEGINNING = re.compile(r" {0,3}(?:[`~]|$)")
IMAGE_END = re.compile(r"!\[[^\[\]\n]*(?:\[|\](?:\([^()\n]*\)|[^(]))")
TAG_END = re.compile(r"[<>]")
OPEN_END = re.compile(r"\](?:[(:]\s*<?)?$")


@dataclass(frozen=True, slots=True)
class LinkRules:
    """What is allowed: images whose URLs begin with `own_files`, and links to `hosts`; None: links to all hosts."""

    own_files: str
    hosts: Hosts | None = None


class LinkFilter:
    """Reads a text in pieces and returns it in pieces; how it was cut into pieces makes no difference to the result.

    `line_head`: how the line begins that the first piece continues.
    """

    def __init__(self, rules: LinkRules, line_head: str = "") -> None:
        self._rules = rules
        self._own_image = re.compile(
            r"!\[[^\[\]\n]{0,150}\]\(<?" + re.escape(rules.own_files) + r"\d{1,19}(?:\?[\w=&.-]{0,200})?>?"
            r"(?:\s\"[^\"\n]{0,50}\")?\)"
        )
        self._pending = ""
        # The text of the line that has been passed on.
        self._line_head = line_head
        self._fence = ""
        # Not every program reads these fences as fences.
        self._is_doubtful = False
        # Discord does not end a code block that holds nothing but line breaks where it is closed.
        self._is_empty_block = False
        # An open backtick of this paragraph may change what the following ones mean.
        self._is_ambiguous = False
        self._last = line_head[-1:]
        # How long the pending text has to be before a place to cut it is looked for.
        self._look_at = 0

    def feed(self, text: str) -> str:
        """Add a piece and return what is certain."""
        self._pending += text
        if not CUTS.search(text):
            return ""
        out = []
        *lines, self._pending = self._pending.split("\n")
        for line in lines:
            out.append(self._end_line(line) + "\n")
            self._look_at = 0
        if len(self._pending) >= self._look_at and (cut := self._settled()):
            part, self._pending = self._pending[:cut], self._pending[cut:]
            out.append(self._part(part))
            self._line_head += part
            self._look_at = 0
        return self._passed("".join(out))

    def finish(self) -> str:
        """Return the rest, with a line that closes an open code block."""
        rest, self._pending = self._end_line(self._pending), ""
        is_new_line = not rest and self._last in ("", "\n")
        closing = fence_mark(self._fence)
        self._fence = ""
        return rest + (f"{'' if is_new_line else chr(10)}{closing}" if closing else "")

    def _passed(self, text: str) -> str:
        self._last = text[-1:] or self._last
        return text

    def _end_line(self, rest: str) -> str:
        line, fence = self._line_head + rest, self._fence
        # Only the beginning of a line makes it a fence, and that is passed on with its end.
        after = fence_after(fence, line) if not self._line_head else fence
        if fence or after:
            mark = line.strip() if fence else fence_mark(after)
            is_odd = mark != "```" or (not after and self._is_empty_block)
            self._is_doubtful = self._is_doubtful or (fence != after and is_odd)
            self._is_empty_block = not fence or (self._is_empty_block and not line)
            self._fence, self._line_head, self._is_ambiguous = after, "", False
            # Some programs read a line with columns as a table even if it begins with a fence.
            code = rest if fence else rest.partition("|")[0]
            return self._code(code, is_fence=fence != after)
        if not line.strip():
            self._is_ambiguous = False
        text, self._line_head = self._part(rest), ""
        return text

    def _settled(self) -> int:
        """Return up to where the line that has begun can be decided."""
        end = len(self._pending)
        # Without a place, the next look is worth it only behind more text: else the work grows with its square.
        self._look_at = end + end // LOOK_SHARE
        for _ in range(MAX_LOOKS):
            match = CUTS.search(self._pending, 0, end)
            if match is None or (not self._line_head and FENCE_BEGINNING.match(self._pending)):
                return 0
            end = -1 if self._fence else _find_open(self._pending, match.end())
            if end < 0:
                return match.end()
        return 0

    def _part(self, text: str) -> str:
        """Return a part of a line, in which no construct is cut."""
        if self._fence:
            return self._code(text)
        if not SUSPICIOUS.search(text):
            return self._without_bare_hosts(text)
        out, at = [], 0
        while at < len(text):
            match = None if self._is_ambiguous else TICKS.search(text, at)
            if match is None:
                break
            end = _find_end(text, match)
            if len(match[0]) >= 3:
                self._is_doubtful = True
            if end < 0 or text[match.start() - 1 : match.start()] == "\\":
                self._is_ambiguous = self._is_doubtful = True
                break
            code = text[match.start() : end]
            if "|" in code:
                self._is_ambiguous = True
                break
            out += [self._prose(text[at : match.start()], self._line_head + text[:at]), self._without_links(code)]
            at = end
        self._is_doubtful = self._is_doubtful or "```" in text
        return "".join([*out, self._prose(text[at:], self._line_head + text[:at])])

    def _code(self, text: str, *, is_fence: bool = False) -> str:
        self._is_doubtful = self._is_doubtful or (not is_fence and "```" in text)
        return self._without_links(text) if self._is_doubtful else text

    def _without_links(self, text: str) -> str:
        if self._rules.hosts is None:
            return text
        return self._prose(text.replace("](", f"]{BREAK}("), text, is_code=True)

    def _prose(self, text: str, before: str, *, is_code: bool = False) -> str:
        out: list[str] = []
        at, before = 0, before[:MAX_HEAD]
        while (match := MARK.search(text, at)) is not None:
            out.append(self._without_bare_hosts(text[at : match.start()]))
            at = self._decide(text, match, out, before=before, is_code=is_code)
        out.append(self._without_bare_hosts(text[at:]))
        return "".join(out)

    def _without_bare_hosts(self, text: str) -> str:
        if self._rules.hosts is None or not BARE.search(text):
            return text
        return WWW.sub(self._bare_host, text)

    def _decide(self, text: str, match: re.Match[str], out: list[str], before: str, *, is_code: bool) -> int:
        """Append what takes the place of a mark; return where to go on."""
        mark = match[0]
        if mark[0] in ":\\&":
            return self._url(text, match, out)
        if is_code:
            out.append(mark)
            return match.end()
        if mark[0] == "!":
            return self._image(text, match, out)
        line = (before + text[: min(match.start(), MAX_HEAD)])[:MAX_HEAD]
        if mark[0] == "<":
            return self._tag(text, match, out, line=line)
        if mark[1] == "(" or DEFINITION.match(line):
            return self._link(text, match, out)
        out.append(mark)
        return match.end()

    def _image(self, text: str, match: re.Match[str], out: list[str]) -> int:
        own = self._own_image.match(text, match.end() - 2)
        if own is not None:
            out.append(own[0])
            return own.end()
        # The mark goes: what remains is a link.
        out.append("[" if IMAGE.match(text, match.start()) else f"{match[0][:-1]}{BREAK}[")
        return match.end()

    def _link(self, text: str, match: re.Match[str], out: list[str]) -> int:
        whole = DESTINATION.match(text, match.end())
        destination = whole[0].strip("<>") if whole else ""
        if destination and self._leads_to_allowed(destination):
            is_in_brackets = text[match.end() : match.end() + 1] == "<" and scheme_of(destination) is not None
            out.append(text[match.start() : match.end() + is_in_brackets])
            return match.end() + is_in_brackets
        if match[0][1] == "(":
            out.append("] (")
        else:
            out.append(f"]{BREAK}:{match[0][2:]}")
        return match.end()

    def _leads_to_allowed(self, destination: str) -> bool:
        scheme = scheme_of(destination)
        if self._rules.hosts is None:
            return scheme in LINK_SCHEMES or (scheme is None and len(destination) < MAX_BEGINNING)
        start = destination.partition("://")
        return scheme in ("http", "https") and self._is_allowed(start[0], start[2])

    def _is_allowed(self, scheme: str, rest: str) -> bool:
        if self._rules.hosts is None or scheme.lower() not in ("http", "https"):
            return False
        authority = AUTHORITY.match(rest)
        end = authority.end() if authority else 0
        goes_on = rest[end : end + 1] == "\\" or rest[: end + 1].endswith(":/")
        return authority is not None and not goes_on and self._rules.hosts.allow(authority[0])

    def _url(self, text: str, match: re.Match[str], out: list[str]) -> int:
        if self._rules.hosts is None:
            out.append(match[0])
            return match.end()
        before = SCHEME_BEFORE.search(out[-1])
        if before is None:
            out.append(f":{BREAK}//")
            return match.end()
        if match[0] == "://" and self._is_allowed(before[0], text[match.end() :][:300]):
            out.append(match[0])
            return match.end()
        out[-1] = out[-1][: before.start()]
        host = HOST.match(text, match.end())
        # What stood before the scheme must not become the scheme of this host.
        last = next((piece[-1] for piece in reversed(out) if piece), "")
        out.append((BREAK if last in ("/", ":", "\\") else "") + (_plain(host[0]) if host else ""))
        return host.end() if host else match.end()

    def _bare_host(self, match: re.Match[str]) -> str:
        is_allowed = self._rules.hosts is not None and self._rules.hosts.allow(match[0].lstrip("/"))
        return match[0] if is_allowed else _plain(match[0])

    def _tag(self, text: str, match: re.Match[str], out: list[str], line: str) -> int:
        at = match.start()
        # Behind an odd number of backslashes it is escaped already.
        is_escaped = (at - len(text[:at].rstrip("\\"))) % 2 == 1
        out.append("<" if is_escaped or self._is_harmless(text, at, line) else "\\<")
        return match.end()

    def _is_harmless(self, text: str, at: int, line: str) -> bool:
        address = ADDRESS.match(text, at)
        if address is not None:
            return address[1] is None or self._leads_to_allowed(address[1])
        # A tag that begins a line makes what is behind it HTML too, where no other tag can be escaped.
        is_first = LINE_HEAD.match(line) is not None
        if HARMLESS.match(text, at):
            return not (is_first and text.startswith("<!", at))
        return LETTERING.match(text, at) is not None and not is_first


def _plain(host: str) -> str:
    return DOT.sub("[.]", host)


def _find_end(text: str, opening: re.Match[str]) -> int:
    """Return the end of the code that these backticks open in this line; -1 if it is not near."""
    for match in TICKS.finditer(text, opening.end(), opening.end() + MAX_SPAN):
        if len(match[0]) == len(opening[0]):
            return match.end()
    return -1


def _find_open(text: str, end: int) -> int:
    """Return where the construct begins that may go on behind the part of a line up to `end`; -1 if there is none."""
    far, part = max(0, end - MAX_SPAN), text[:end]
    tag, image = part.rfind("<", far), part.rfind("![", far)
    starts = [
        # A second bracket before the first is closed decides what the first one is.
        start
        for start, closing in ((tag, TAG_END.search(text, tag + 1)), (image, IMAGE_END.match(text, max(0, image))))
        if start >= 0 and (closing is None or (closing.end() > end and closing[0][-1] not in "<["))
    ]
    if (last := OPEN_END.search(part, far)) is not None:
        starts.append(last.start())
    at = 0
    while (ticks := TICKS.search(part, at)) is not None:
        at = _find_end(part, ticks)
        if at < 0:
            starts += [ticks.start()] if len(part) - ticks.start() <= MAX_SPAN else []
            break
    return min(starts, default=-1)
