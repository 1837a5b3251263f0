"""The hops of a question that agents pass on from one installation to the next: their number, and cycles among them.

Each installation that asks another adds itself, and those of its agents that passed the question on. The hops are part
of the place, as its thread, so that they are known wherever the place is: in the inbox row and in every tool's context.
"""

import hashlib
import hmac
import re
from collections.abc import Sequence

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
    """This question has been here before ({way}); it is not taken up again."""

    code = "delegation_cycle"


class TooDeep(Refusal):
    """This question has been passed on {passed} times ({way}); {most} is the most."""

    code = "delegation_depth"


def house_id(secrets: Secrets) -> str:
    """Return the id of this installation for others: equal in all its processes, and without a hint at the secret."""
    return _signed(secrets, "house")


def person_id(secrets: Secrets, user_id: int) -> str:
    """Return the id of a person for other installations: always the same, and nobody there can tell who it is."""
    return f"{house_id(secrets)}/{_signed(secrets, f'person {user_id}')}"


def is_hop(value: object) -> bool:
    """Tell whether a value can be a hop."""
    return isinstance(value, str) and HOP.fullmatch(value) is not None


def house_of(hop: str) -> str:
    """Return the installation of a hop, which may be one of its agents."""
    return hop.partition("/")[0]


def check_hops(hops: Hops, house: str) -> None:
    """Raise the `Refusal` for a question that comes back to this installation, or has too many hops."""
    way = " → ".join((*hops, house))
    if house in map(house_of, hops):
        raise GoesInCircles(way=way)
    if len(hops) > MAX_DEPTH:
        raise TooDeep(way=way, passed=len(hops), most=MAX_DEPTH)


def to_place(platform: str, context_id: str, hops: Hops, *, is_direct: bool) -> Place:
    """Return the place of another agent's context."""
    return Place(
        platform=platform,
        server=None,
        channel=f"{CHANNEL}{context_id}",
        thread=ARROW.join(hops) or None,
        is_direct=is_direct,
    )


def inbound_hops(place: Place) -> Hops:
    """Return the installations that a question came through, marked as such; none for what a person wrote here."""
    if place.thread is None or not place.channel.startswith(CHANNEL):
        return ()
    return tuple(AT + hop for hop in place.thread.split(ARROW))


def outbound_hops(way: Sequence[str], house: str) -> list[str]:
    """Return the hops that go with a question to another installation.

    `way` has the result of `inbound_hops`, then the names of our own agents that passed the question on.
    """
    came_by = [hop.removeprefix(AT) for hop in way if hop.startswith(AT)]
    return [*came_by, house, *(f"{house}/{name}" for name in way if not name.startswith(AT))]


def _signed(secrets: Secrets, what: str) -> str:
    return hmac.new(secrets.secret_keys[-1].encode(), f"parley {what}".encode(), hashlib.sha256).hexdigest()[:16]
