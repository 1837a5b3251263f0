"""The hosts that links may lead to."""

import html
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

# A host at the beginning of what stands between `://` and the next slash; only closing punctuation may follow it.
# Everything else (a name before an @, a percent sign, a bracket) is read differently by different programs.
AUTHORITY = re.compile(r"([\w-]++(?:\.[\w-]++)*+)\.?(?::\d{1,5})?[)\]}\"'*_~`,;:!|.]*")
# A name is tried only from its beginning: else the time grows with the square of a long word.
MENTIONED = re.compile(r"(?<![\w-])(?:[\w-]++\.)+[\w-]+")
SCHEME = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*):")
ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
UNSEEN = re.compile("[\x00-\x20\x7f-\xa0\u200b-\u200f\u2060-\u206f\ufeff]")
# A longer part of a name is in no host, and the time that punycode takes grows with the square of its length and more.
MAX_LABEL_CHARS = 63
# IDNA 2003, which Python knows, turns these into other letters; for browsers a host with them is another one.
DEVIATIONS = frozenset("\u00df\u03c2\u200c\u200d")
LINK_SCHEMES = frozenset({"http", "https", "mailto", "tel"})


class Hosts:
    """The hosts that the trusted texts of a turn mention, and the installation's own."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(normalise(name) for name in names)

    def allow(self, authority: str) -> bool:
        """Return whether a link with this authority, as it is written, leads to one of the hosts."""
        match = AUTHORITY.fullmatch(authority)
        return match is not None and normalise(match[1].strip("_")) in self._names


def hosts_in(text: str) -> set[str]:
    """Return the hosts that a text mentions, with or without an address around them."""
    return {normalise(host.strip("_")) for host in MENTIONED.findall(text)}


def host_of(url: str) -> str:
    """Return the host of a well-formed URL."""
    return normalise(urlsplit(url).hostname or "")


def normalise(host: str) -> str:
    """Return a host in the form in which it is compared: lower case, punycode, without `www.`."""
    # Python would make it a final one at the end of a word.
    plain = host.replace("\u03a3", "\u03c3").lower().rstrip(".").removeprefix("www.")
    if plain.isascii() or any(len(label) > MAX_LABEL_CHARS for label in plain.split(".")):
        return plain
    if not DEVIATIONS.isdisjoint(plain):
        return plain
    try:
        return plain.encode("idna").decode()
    except UnicodeError:
        return plain


def scheme_of(destination: str) -> str | None:
    """Return the scheme of a link as a browser reads it, in lower case; None for a relative link."""
    plain = UNSEEN.sub("", ESCAPED.sub(r"\1", html.unescape(destination)))
    match = SCHEME.match(plain)
    return None if match is None else match[1].lower()
