"""The hops of a question that agents pass on between installations; used to limit the depth and to detect cycles.

Each installation that passes a question on appends itself, and its own agents that passed it on. The hops are stored as
the thread of the place, so that they are available wherever the place is: in the inbox row and in each tool's context.
"""

import hashlib
import hmac
import re
from collections.abc import Sequence
from functools import lru_cache

from shared.errors import Refusal
from shared.messages import Place
from shared.settings import Secrets

# A question may be passed on this many times.
MAX_DEPTH = 3
# Prefix of a channel that is the context of another agent's question; the context's id follows.
CHANNEL = "a2a:"
ARROW = ">"
# Prefix that distinguishes another installation from the names of our own agents.
AT = "@"
HOP = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,79}")

Hops = tuple[str, ...]


class GoesInCircles(Refusal):
    """This question has been here before ({path}); it is not taken up again."""

    code = "delegation_cycle"


class TooDeep(Refusal):
    """This question has been passed on {passed} times ({path}); {most} is the most."""

    code = "delegation_depth"


@lru_cache(maxsize=8)
def installation_id(secrets: Secrets) -> str:
    """Return the id of this installation for others: the same in all its processes; it does not reveal the secret."""
    # Other installations know this one by the id, so the text that it is derived from stays.
    return _signed(secrets, "house")


def person_id(secrets: Secrets, user_id: int) -> str:
    """Return the pseudonym of a user for other installations: stable, and not traceable to the user there."""
    return f"{installation_id(secrets)}/{_signed(secrets, f'person {user_id}')}"


def is_hop(value: object) -> bool:
    """Return whether a value is a valid hop."""
    return isinstance(value, str) and HOP.fullmatch(value) is not None


def installation_of(hop: str) -> str:
    """Return the installation of a hop, which is an installation or one of its agents."""
    return hop.partition("/")[0]


def check_hops(hops: Hops, installation: str) -> None:
    """Raise `GoesInCircles` if a question has passed this installation before, `TooDeep` if it has too many hops."""
    path = " → ".join((*hops, installation))
    if installation in map(installation_of, hops):
        raise GoesInCircles(path=path)
    if len(hops) > MAX_DEPTH:
        raise TooDeep(path=path, passed=len(hops), most=MAX_DEPTH)


def to_place(platform: str, context_id: str, hops: Hops, *, is_direct: bool) -> Place:
    """Return the place of a question from another installation; `context_id` is its A2A context."""
    return Place(
        platform=platform,
        server=None,
        channel=f"{CHANNEL}{context_id}",
        thread=ARROW.join(hops) or None,
        is_direct=is_direct,
    )


def inbound_hops(place: Place) -> Hops:
    """Return the hops of a question from other installations, each prefixed with `@`; empty for a person's message."""
    if place.thread is None or not place.channel.startswith(CHANNEL):
        return ()
    return tuple(AT + hop for hop in place.thread.split(ARROW))


def outbound_hops(path: Sequence[str], installation: str) -> list[str]:
    """Return the hops to send with a question to another installation.

    `path`: the result of `inbound_hops`, followed by the names of our own agents that passed the question on.
    """
    hops = [hop.removeprefix(AT) for hop in path if hop.startswith(AT)]
    return [*hops, installation, *(f"{installation}/{name}" for name in path if not name.startswith(AT))]


def _signed(secrets: Secrets, what: str) -> str:
    return hmac.new(secrets.secret_keys[-1].encode(), f"parley {what}".encode(), hashlib.sha256).hexdigest()[:16]
