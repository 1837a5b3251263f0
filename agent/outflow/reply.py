"""The filter of one turn, through which everything passes that a model wrote and a person or a program is sent.

It removes the installation's secrets: plain, URL-encoded, in hexadecimal, in base64, reversed, or spread out. Text and
secrets are compared by their ASCII letters and digits alone, so that spaces, line breaks, invisible characters or
Markdown between the characters of a secret do not hide it.
"""

import base64
import json
import re
from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from itertools import islice
from typing import Any
from urllib.parse import quote

from msgspec import Struct, field
from msgspec.structs import replace

from agent.outflow.hosts import Hosts, host_of
from agent.outflow.links import CUTS, MARKED, LinkFilter, LinkRules
from agent.prompts import prompts
from shared.text import clean

# They make text read in another order than it has: `evil.exe` as `exe.live`. Marks for single letters stay.
BIDIRECTIONAL = re.compile("[\u202a-\u202e\u2066-\u2069]")
FILES = "/files/"
# A shorter sequence would also be found in ordinary text.
LEAST_CHARS = 8
SEPARATORS = re.compile(r"[^A-Za-z0-9]+")
# A stream is held back once this many characters may be the beginning of a secret.
HEAD_CHARS = 4
# No more of a stream is held back.
MAX_HELD = 1500
# The spaces that may stand before a mark that opens a code block.
MAX_INDENT = 3


class Secrets:
    """The secrets that no reply may contain."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values = frozenset(values)
        forms: set[str] = set()
        for value in self._values:
            content = value.encode("utf-8", "replace")
            forms |= {value, value[::-1], quote(value, safe=""), content.hex()}
            # A text in base64 depends on where it begins in a group of three bytes; the characters at its ends are
            # shared.
            for before, first in enumerate((0, 2, 3)):
                encoded = base64.b64encode(bytes(before) + content).decode()
                forms.add(encoded[first : (before + len(content)) * 8 // 6])
        needles = {squeeze(form) for form in forms}
        self._needles = sorted(needle for needle in needles if len(needle) >= LEAST_CHARS)
        self._longest = max(map(len, self._needles), default=0)
        self._by_head: dict[str, list[str]] = defaultdict(list)
        for needle in self._needles:
            self._by_head[needle[:HEAD_CHARS]].append(needle)

    def with_value(self, value: str) -> "Secrets":
        """Return these secrets and one more."""
        return self if value in self._values else Secrets({*self._values, value})

    def removed_from(self, text: str) -> str:
        """Return the text with a note in the place of each secret."""
        if not self._needles:
            return text
        squeezed = squeeze(text)
        needles = [needle for needle in self._needles if needle in squeezed]
        if not needles:
            return text
        places = [at for at, character in enumerate(text) if character.isascii() and character.isalnum()]
        # A secret may begin inside of another: looking ahead finds both.
        starts = (
            (match.start(), len(needle)) for needle in needles for match in re.finditer(f"(?={needle})", squeezed)
        )
        spans = sorted((places[at], places[at + length - 1] + 1) for at, length in starts)
        pieces, end = [], 0
        for first, last in spans:
            if first >= end:
                pieces += [text[end:first], prompts().turn.secret_removed]
            end = max(end, last)
        return "".join([*pieces, text[end:]])

    def removed_from_json(self, value: Any) -> Any:
        """Return a JSON value without secrets in its texts and keys."""
        if isinstance(value, str):
            return self.removed_from(value)
        if isinstance(value, dict):
            return {self.removed_from(str(key)): self.removed_from_json(node) for key, node in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.removed_from_json(node) for node in value]
        return value

    def are_in(self, text: str) -> bool:
        """Return whether the text contains a secret."""
        squeezed = squeeze(text)
        return any(needle in squeezed for needle in self._needles)

    def settled(self, text: str) -> int:
        """Return how much of a text that goes on may be passed on: what follows may be the beginning of a secret."""
        if not self._needles:
            return len(text)
        # Only what reaches to the end can go on: of an open secret no more than its length, with what is between.
        near = range(len(text) - 1, max(-1, len(text) - MAX_HELD - 1), -1)
        places = [*islice((at for at in near if text[at].isascii() and text[at].isalnum()), self._longest)][::-1]
        squeezed = "".join(text[at] for at in places).lower()
        for at in range(len(squeezed) - HEAD_CHARS + 1):
            rest = squeezed[at:]
            if any(needle.startswith(rest) for needle in self._by_head.get(rest[:HEAD_CHARS], ())):
                return places[at]
        return places[-HEAD_CHARS + 1] if len(places) >= HEAD_CHARS else (places[0] if places else len(text))


def squeeze(text: str) -> str:
    """Return the ASCII letters and digits of a text, in lower case."""
    return SEPARATORS.sub("", text).lower()


class OutflowRules(Struct, frozen=True, dict=True):
    """What is the same for every turn: the secrets, and the address under which our own files are found."""

    base_url: str = "http://127.0.0.1:8080"
    secrets: Secrets = field(default_factory=Secrets)

    @cached_property
    def own_host(self) -> str:
        """Return the host of the address, read once for all turns."""
        return host_of(self.base_url)


class Outflow:
    """Filters what one turn sends. `restrict` is called once its prompt holds untrusted text and private data."""

    def __init__(self, rules: OutflowRules | None = None) -> None:
        rules = rules or OutflowRules()
        self._secrets = rules.secrets
        self._own_host = rules.own_host
        self._stream: TextStream | None = None
        self._links = LinkRules(f"{rules.base_url.rstrip('/')}{FILES}")

    def hide(self, secret: str) -> None:
        """From now on, remove this text, too."""
        self._secrets = self._secrets.with_value(secret)

    def restrict(self, hosts: Iterable[str]) -> None:
        """From now on, allow links only to these hosts and to the installation itself."""
        self._links = replace(self._links, hosts=Hosts({*hosts, self._own_host}))

    def feed(self, piece: str) -> str:
        """Add a piece of a streamed text, and return what of it is certain and may be sent."""
        self._stream = self._stream or TextStream(self._secrets, self._links)
        return self._stream.feed(piece)

    def finish(self) -> str:
        """Return the rest of the streamed text; the next piece begins another one."""
        rest = "" if self._stream is None else self._stream.finish()
        self.drop_stream()
        return rest

    def drop_stream(self) -> None:
        """Forget the rest of the streamed text; the next piece begins another one."""
        self._stream = None

    def filtered(self, text: str) -> str:
        """Return the whole text as it may be sent."""
        return self._filtered(text, self._links)

    def foreign(self, text: str) -> str:
        """Return a text of another program as it may be sent: the only links in it are those to our own files."""
        return self._filtered(text, replace(self._links, hosts=Hosts({self._own_host})))

    def _filtered(self, text: str, rules: LinkRules) -> str:
        plain = self._secrets.removed_from(_readable(clean(text)))
        if MARKED.search(plain) is None:
            return plain
        links = LinkFilter(rules)
        return links.feed(plain) + links.finish()

    def depends_on_hosts(self, text: str) -> bool:
        """Return whether the result for this text may depend on the hosts that are allowed."""
        return MARKED.search(text) is not None

    def without_secrets(self, value: Any) -> Any:
        """Return a JSON value without secrets."""
        return self._secrets.removed_from_json(value)

    def holds_secret(self, content: bytes) -> bool:
        """Tell whether a file holds a secret in one of the forms that are removed from texts; of any encoding."""
        return self._secrets.are_in(content.decode("latin-1"))

    def json_without_secrets(self, content: str) -> str:
        """Return a JSON text without secrets; one that cannot be removed is withheld with everything around it."""
        if not self._secrets.are_in(content):
            return content
        plain = json.dumps(self.without_secrets(json.loads(content)), ensure_ascii=False)
        if not self._secrets.are_in(plain):
            return plain
        return json.dumps({"error": True, "message": prompts().turn.secret_result})


class TextStream:
    """Filters a text that comes in pieces; what follows cannot change the text that it has returned."""

    def __init__(self, secrets: Secrets, rules: LinkRules) -> None:
        self._secrets, self._rules = secrets, rules
        self._held = ""
        # Made for the first piece that the filter may change. Until then: the text that such a piece may continue, and
        # the text of its line that has been passed on.
        self._links: LinkFilter | None = None
        self._pending = self._line_head = ""

    def feed(self, text: str) -> str:
        """Add a piece and return what may be sent."""
        buffer = self._secrets.removed_from(self._held + _readable(clean(text)))
        settled = self._secrets.settled(buffer)
        self._held = buffer[settled:]
        return self._checked(buffer[:settled])

    def finish(self) -> str:
        """Return the rest."""
        rest, self._held = self._checked(self._held), ""
        if self._links is None:
            if MARKED.search(self._pending) is None:
                return rest + self._pending
            self._links = LinkFilter(self._rules, self._line_head)
            rest += self._links.feed(self._pending)
        return rest + self._links.finish()

    def _checked(self, text: str) -> str:
        if self._links is not None:
            return self._links.feed(text)
        self._pending += text
        cut = CUTS.search(self._pending) if CUTS.search(text) else None
        if cut is None:
            return ""
        if MARKED.search(self._pending) is not None:
            self._links = LinkFilter(self._rules, self._line_head)
            return self._links.feed(self._pending)
        passed = self._pending[: cut.end()]
        line = (self._line_head + passed).rpartition("\n")[2]
        if len(line) <= MAX_INDENT and not line.strip(" "):
            # A code block may begin here.
            passed, line = passed.removesuffix(line), ""
        self._pending, self._line_head = self._pending[len(passed) :], line
        return passed


def _readable(text: str) -> str:
    plain = text.replace("\r", "")
    return plain if plain.isascii() else BIDIRECTIONAL.sub("", plain)
