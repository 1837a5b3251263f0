"""The filter of one turn, through which everything passes that a model wrote and a person or a program is sent."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from agent.outflow.hosts import Hosts, host_of
from agent.outflow.links import LinkFilter, LinkRules, may_link
from agent.outflow.secrets import Secrets
from agent.prompts import prompts
from shared.text import clean

# They make text read in another order than it has: `evil.exe` as `exe.live`. Marks for single letters stay.
BIDIRECTIONAL = re.compile("[\u202a-\u202e\u2066-\u2069]")
FILES = "/files/"


@dataclass(frozen=True, slots=True)
class OutflowRules:
    """What is the same for every turn: the secrets, and the address under which our own files are found."""

    base_url: str = "http://127.0.0.1:8080"
    secrets: Secrets = field(default_factory=Secrets)
    own_host: str = field(init=False)

    def __post_init__(self) -> None:
        """Read the host of the address, once for all turns."""
        object.__setattr__(self, "own_host", host_of(self.base_url))


class Outflow:
    """Filters what one turn sends. `restrict` is called once its prompt holds untrusted text and private data."""

    def __init__(self, rules: OutflowRules) -> None:
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
        links = LinkFilter(self._links)
        return links.feed(self._secrets.removed_from(_readable(clean(text)))) + links.finish()

    def foreign(self, text: str) -> str:
        """Return a text of another program as it may be sent: the only links in it are those to our own files."""
        strict = LinkFilter(replace(self._links, hosts=Hosts({self._own_host})))
        return strict.feed(self._secrets.removed_from(_readable(clean(text)))) + strict.finish()

    def depends_on_hosts(self, text: str) -> bool:
        """Return whether the result for this text may depend on the hosts that are allowed."""
        return may_link(text)

    def without_secrets(self, value: Any) -> Any:
        """Return a JSON value without secrets."""
        return self._secrets.removed_from_json(value)

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

    def __init__(self, secrets: Secrets, links: LinkRules) -> None:
        self._secrets, self._links = secrets, LinkFilter(links)
        self._held = ""

    def feed(self, text: str) -> str:
        """Add a piece and return what may be sent."""
        held = self._secrets.removed_from(self._held + _readable(clean(text)))
        settled = self._secrets.settled(held)
        self._held = held[settled:]
        return self._links.feed(held[:settled])

    def finish(self) -> str:
        """Return the rest."""
        rest, self._held = self._held, ""
        return self._links.feed(rest) + self._links.finish()


def _readable(text: str) -> str:
    plain = text.replace("\r", "")
    return plain if plain.isascii() else BIDIRECTIONAL.sub("", plain)
