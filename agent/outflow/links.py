"""Takes images and links out of Markdown that a model wrote, line by line, so that a stream is checked as it comes.

It looks for everything that one program or another may turn into an image, HTML or a link, and breaks it where it
stands; the rest of the text stays as it is. `PROSE` and `CODE` say which rule replaces which kind of token.

- Images by URL: only from the installation's own files; others become links.
- HTML that can load or link something: text, by a backslash before it; links with schemes such as `javascript:`: text.
- Links to hosts that are not allowed, where only some are: text without scheme, `example[.]org/page`.
"""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from agent.outflow.hosts import LINK_SCHEMES, Hosts, scheme_of
from agent.outflow.tokens import Kind, Place, Token, find_open, next_token, split_code
from shared.text import fence_mark

# Between the characters of a mark it is no mark any more, and cannot be seen.
BREAK = "\N{ZERO WIDTH SPACE}"
# How often a place to cut a stream is looked for before a construct that is still open.
MAX_LOOKS = 4
# By which share of its length a text has to grow before the next look.
LOOK_SHARE = 4

# Where a stream may be cut: no host or address goes on behind these.
BOUNDARY = "\\s\u3001\u3002\uff01\uff0c\uff1a\uff1b\uff1f"
CUTS = re.compile(f"[{BOUNDARY}](?=[^{BOUNDARY}]*$)")
# Hosts without a scheme that some programs make links: with `www.`, with a path, or with a part for words of the turn.
TOP_DOMAIN = r"(?:[a-z]{2}|com|net|org|info|biz|dev|app|xyz|site|online|top|shop|link|click|cloud)(?![\w-]|\.\w)"
WWW = re.compile(
    # Of any length from the beginning of a word: a platform's limit may cut a long one down to a host.
    r"(?:(?<![\w./-])(?:[\w-]{64,}+\.[\w.-]*+|(?:[\w-]++\.)+[A-Za-z][\w-]++\.?(?=[/?#]|:\d)|(?:[\w-]++\.){2,}"
    rf"{TOP_DOMAIN})"
    # Within a word, of the length that a host may have, because every character of a word is such a place.
    r"|(?<![A-Za-z0-9./-])(?:www\.|(?:[\w-]{1,63}\.){1,8}[A-Za-z][\w-]{1,62}\.?(?=[/?#]|:\d)|(?:[\w-]{1,63}\.){2,8}"
    rf"{TOP_DOMAIN})"
    rf"|(?<!:)//(?=[\w-]{{1,63}}\.))[^{BOUNDARY}/?#\\<>]*",
    re.IGNORECASE,
)
SUSPICIOUS = re.compile(r"[<`\[\]]|[:;][\\/&]")
BARE = re.compile(r"\.(?:[\w-]+(?:[/?#:]|\.[/?#:A-Za-z])|(?<=[wW]{3}\.))|//")
# What a text has if the filter may change it: one without a match stays as it is, and nothing in it can become a link.
MARKED = re.compile(rf"{SUSPICIOUS.pattern}|{BARE.pattern}|~")
AUTHORITY = re.compile(r"[^\s/?#\\<>]*")
HOST = re.compile(rf"[^{BOUNDARY}/?#\\<>:&!()\[\]`\"'|]*")
# The beginning of a destination, which says where it leads.
MAX_BEGINNING = 150
# What is read of an address to tell its host.
MAX_AUTHORITY = 300
DESTINATION = re.compile(rf"<[^<>\n]{{0,{MAX_BEGINNING}}}>|\S{{0,{MAX_BEGINNING}}}")
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
FENCE_BEGINNING = re.compile(r" {0,3}(?:[`~]|$)")


class LinkRules(Struct, frozen=True):
    """What is allowed: images whose URLs begin with `own_files`, and links to `hosts`; None: links to all hosts."""

    own_files: str
    hosts: Hosts | None = None

    def allow_link(self, destination: str) -> bool:
        """Return whether a link may lead to this destination, of which it has the beginning."""
        scheme = scheme_of(destination)
        if self.hosts is None:
            return scheme in LINK_SCHEMES or (scheme is None and len(destination) < MAX_BEGINNING)
        start = destination.partition("://")
        return scheme in ("http", "https") and self.allow_address(start[0], start[2])

    def allow_address(self, scheme: str, rest: str) -> bool:
        """Return whether an address may lead where it does; `rest` begins behind its slashes."""
        if self.hosts is None or scheme.lower() not in ("http", "https"):
            return False
        authority = AUTHORITY.match(rest)
        end = authority.end() if authority else 0
        goes_on = rest[end : end + 1] == "\\" or rest[: end + 1].endswith(":/")
        return authority is not None and not goes_on and self.hosts.allow(authority[0])


class Before(NamedTuple):
    """What stands before a token: in its line before its text, and as the last character of what replaced the text."""

    head: str
    last: str

    def line(self, token: Token) -> str:
        """Return the beginning of the token's line."""
        return (self.head + token.text[: min(token.start, MAX_HEAD)])[:MAX_HEAD]


# What takes a token's place, and where to go on behind it.
Replacement = tuple[str, int]
Rule = Callable[[LinkRules, Token, Before], Replacement]


def replace_text(rules: LinkRules, token: Token, _before: Before) -> Replacement:
    """Of text, the hosts are replaced that some programs make links."""
    return replace_hosts(rules, str(token)), token.end


def replace_hosts(rules: LinkRules, text: str) -> str:
    """Return a text in which hosts that links may not lead to are no links any more, though they have no scheme."""
    if rules.hosts is None or not BARE.search(text):
        return text
    hosts = rules.hosts
    return WWW.sub(lambda host: host[0] if hosts.allow(host[0].lstrip("/")) else DOT.sub("[.]", host[0]), text)


def replace_image(rules: LinkRules, token: Token, _before: Before) -> Replacement:
    """Our own images stay; of others the mark goes, and what remains is a link."""
    own = re.compile(
        r"!\[[^\[\]\n]{0,150}\]\(<?" + re.escape(rules.own_files) + r"\d{1,19}(?:\?[\w=&.-]{0,200})?>?"
        r"(?:\s\"[^\"\n]{0,50}\")?\)"
    ).match(token.text, token.end - 2)
    if own is not None:
        return own[0], own.end()
    return "[" if IMAGE.match(token.text, token.start) else f"{str(token)[:-1]}{BREAK}[", token.end


def replace_link(rules: LinkRules, token: Token, _before: Before) -> Replacement:
    """A link stays if it leads where links may; its text stays in any case."""
    beginning = DESTINATION.match(token.text, token.end)
    destination = beginning[0].strip("<>") if beginning else ""
    if destination and rules.allow_link(destination):
        is_in_brackets = token.text[token.end : token.end + 1] == "<" and scheme_of(destination) is not None
        end = token.end + is_in_brackets
        return token.text[token.start : end], end
    return "] (" if token.kind is Kind.LINK else f"]{BREAK}:{str(token)[2:]}", token.end


def replace_definition(rules: LinkRules, token: Token, before: Before) -> Replacement:
    """At the beginning of a line it defines where links lead."""
    return replace_link(rules, token, before) if DEFINITION.match(before.line(token)) else keep(rules, token, before)


def replace_tag(rules: LinkRules, token: Token, before: Before) -> Replacement:
    """Tags that can load or link nothing stay, and addresses in brackets; others are escaped, if they are not yet."""
    text, at = token.text, token.start
    is_escaped = (at - len(text[:at].rstrip("\\"))) % 2 == 1
    # A tag that begins a line makes what is behind it HTML too, where no other tag can be escaped.
    is_first = LINE_HEAD.match(before.line(token)) is not None
    if (address := ADDRESS.match(text, at)) is not None:
        is_harmless = address[1] is None or rules.allow_link(address[1])
    elif HARMLESS.match(text, at):
        is_harmless = not (is_first and text.startswith("<!", at))
    else:
        is_harmless = LETTERING.match(text, at) is not None and not is_first
    return "<" if is_escaped or is_harmless else "\\<", token.end


def replace_address(rules: LinkRules, token: Token, before: Before) -> Replacement:
    """An address without its scheme, and without dots between the parts of its host, is no link."""
    rest = token.text[token.end : token.end + MAX_AUTHORITY]
    scheme, mark = token.text[token.start : token.scheme_end], token.text[token.scheme_end : token.end]
    if rules.hosts is None or (mark == "://" and rules.allow_address(scheme, rest)):
        return str(token), token.end
    if not scheme:
        return f":{BREAK}//", token.end
    host = HOST.match(token.text, token.end)
    # What stood before the scheme must not become the scheme of this host.
    glue = BREAK if before.last in ("/", ":", "\\") else ""
    return glue + (DOT.sub("[.]", host[0]) if host else ""), host.end() if host else token.end


def break_link(_rules: LinkRules, token: Token, _before: Before) -> Replacement:
    """Where code may be none for some programs, a link is broken without a look at where it leads."""
    return f"]{BREAK}{str(token)[1:]}", token.end


def keep(_rules: LinkRules, token: Token, _before: Before) -> Replacement:
    """The token stays."""
    return str(token), token.end


PROSE: Mapping[Kind, Rule] = {
    Kind.TEXT: replace_text,
    Kind.IMAGE: replace_image,
    Kind.LINK: replace_link,
    Kind.DEFINITION: replace_definition,
    Kind.TAG: replace_tag,
    Kind.ADDRESS: replace_address,
}
# Code that some program may read as prose.
CODE: Mapping[Kind, Rule] = {
    Kind.TEXT: replace_text,
    Kind.IMAGE: keep,
    Kind.LINK: break_link,
    Kind.DEFINITION: keep,
    Kind.TAG: keep,
    Kind.ADDRESS: replace_address,
}


class LinkFilter:
    """Reads a text in pieces and returns it in pieces; how it was cut into pieces makes no difference to the result.

    `line_head`: how the line begins that the first piece continues.
    """

    def __init__(self, rules: LinkRules, line_head: str = "") -> None:
        self._rules = rules
        self._place = Place()
        self._pending = ""
        # The text of the line that has been passed on.
        self._line_head = line_head
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
        if len(self._pending) >= self._look_at and (cut := self._find_cut()):
            part, self._pending = self._pending[:cut], self._pending[cut:]
            out.append(self._replace_part(part))
            self._line_head += part
            self._look_at = 0
        result = "".join(out)
        self._last = result[-1:] or self._last
        return result

    def finish(self) -> str:
        """Return the rest, with a line that closes an open code block."""
        rest, self._pending = self._end_line(self._pending), ""
        is_new_line = not rest and self._last in ("", "\n")
        closing = fence_mark(self._place.fence)
        self._place = replace(self._place, fence="")
        return rest + (f"{'' if is_new_line else chr(10)}{closing}" if closing else "")

    def _find_cut(self) -> int:
        """Return up to where the line that has begun can be decided."""
        end = len(self._pending)
        # Without a place, the next look is worth it only behind more text: else the work grows with its square.
        self._look_at = end + end // LOOK_SHARE
        for _ in range(MAX_LOOKS):
            match = CUTS.search(self._pending, 0, end)
            if match is None or (not self._line_head and FENCE_BEGINNING.match(self._pending)):
                return 0
            end = -1 if self._place.fence else find_open(self._pending, match.end())
            if end < 0:
                return match.end()
        return 0

    def _end_line(self, rest: str) -> str:
        before = self._place
        # Only the beginning of a line makes it a fence, and that is passed on with its end.
        self._place = before.after(self._line_head + rest, is_whole=not self._line_head)
        if before.fence:
            # The line that closes the block is none that could open one.
            text = self._replace_code(rest, is_fence=not self._place.fence)
        elif self._place.fence:
            # Some programs read a line with columns as a table even if it begins with a fence.
            text = self._replace_code(rest.partition("|")[0], is_fence=True)
        else:
            text = self._replace_part(rest)
        self._line_head = ""
        return text

    def _replace_part(self, text: str) -> str:
        """Return a part of a line, in which no construct is cut."""
        if self._place.fence:
            return self._replace_code(text)
        if not SUSPICIOUS.search(text):
            return replace_hosts(self._rules, text)
        spans, self._place = split_code(text, self._place)
        return "".join(
            self._replace(text[start:end], CODE if is_code else PROSE, self._line_head + text[: min(start, MAX_HEAD)])
            for is_code, start, end in spans
        )

    def _replace_code(self, text: str, *, is_fence: bool = False) -> str:
        # Up to these all agree, so that it makes no difference whether a stream was cut before them.
        at = len(text) if is_fence or "```" not in text else text.index("```")
        agreed = text[:at] if self._place.is_agreed else ""
        if at < len(text):
            self._place = replace(self._place, is_agreed=False)
        return agreed if self._place.is_agreed else agreed + self._replace(text[len(agreed) :], CODE, text)

    def _replace(self, text: str, table: Mapping[Kind, Rule], head: str) -> str:
        if self._rules.hosts is None and table is CODE:
            return text
        out, at, last, head = [], 0, "", head[:MAX_HEAD]
        while at < len(text):
            token = next_token(text, at)
            start = len(text) if token is None else token.start
            for each in (Token(Kind.TEXT, text, at, end=start), token):
                if each is None or each.start == each.end:
                    continue
                piece, at = table[each.kind](self._rules, each, Before(head, last))
                out.append(piece)
                last = piece[-1:] or last
        return "".join(out)
